"""Decisions for one audio rendition: sample rate, channel layout, sample format, bitrate, encoder."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipelines import encoders
from pipelines.containers import CONTAINERS
from pipelines.devices import Device
from pipelines.errors import UnsupportedSpec
from pipelines.filters import ChannelMap, Filter, Limit, Normalise, Resample, SoundFade, Tempo
from pipelines.metadata import labels
from pipelines.rendition import AudioRendition
from pipelines.sound.bitrates import POSSIBLE, usual_bitrate
from pipelines.sound.downmix import (
    BY_COUNT,
    LAYOUTS,
    can_clip,
    carrier,
    has_place,
    is_identity,
    keeps,
    loudness_db,
    matrix,
    speakers,
)
from pipelines.source import AudioInfo
from pipelines.spec import AUDIO_CODECS, AudioSpec

DOWNMIX_CEILING_DBFS = -1.0
"""What lossy codecs and the way between samples add has room above it."""
DELIVERY_RATE = 48_000
"""Lossy delivery goes no higher unless asked."""


def plan_audio(
    spec: AudioSpec,
    source: AudioInfo,
    container: str,
    device: Device,
    *,
    default: bool,
    pace: Fraction = Fraction(1),
) -> AudioRendition:
    """The rendition of one source track. UnsupportedSpec when the codec can't do what is asked."""
    codec = spec.codec or AUDIO_CODECS[container][0]
    encoder = encoders.SOFTWARE_ENCODERS[codec]
    if device.encoder(encoder) is None:
        raise UnsupportedSpec(f"this FFmpeg has no {encoder}", stage="plan", encoder=encoder)
    reasons = [f"{codec} by {encoder}" + ("" if spec.codec else f" ({container}'s usual codec)")]
    sample_rate = _sample_rate(spec, source, codec, reasons)
    layout = _layout(spec, source, codec, reasons)
    sample_format = _sample_format(source, encoder, reasons)
    filters = _filters(spec, source, layout, reasons)
    filters.insert(
        1 if spec.channel_map else 0,
        Resample(sample_rate=sample_rate, layout=layout, sample_format=sample_format, scaled=spec.downmix == "scaled"),
    )
    filters += _in_time(spec, pace, reasons)
    bit_rate = _bitrate(spec, codec, layout, sample_rate, reasons)
    options = {} if bit_rate is None else {"b": str(bit_rate)}
    if codec == "opus" and len(LAYOUTS[layout]) > 2:
        # the encoder's other way to place channels swaps those of 5.0 and 6.1
        options["mapping_family"] = "1"
    if codec == "mp3" and not CONTAINERS[container].signals_priming:
        # the first frame heard has nothing before it to take bits from: those are the encoder's priming, left out
        options["reservoir"] = "0"
    return AudioRendition(
        stream=source.index,
        codec=codec,
        encoder=encoder,
        options=options,
        filters=tuple(filters),
        sample_rate=sample_rate,
        layout=layout,
        sample_format=sample_format,
        bit_rate=bit_rate,
        pace=pace,
        **labels(source, default=default),
        reason="; ".join(reasons),
    )


def _sample_rate(spec: AudioSpec, source: AudioInfo, codec: str, reasons: list[str]) -> int:
    offered = encoders.SAMPLE_RATES[codec]
    if spec.sample_rate is not None:
        if offered and spec.sample_rate not in offered:
            rates = ", ".join(str(rate) for rate in sorted(offered))
            raise UnsupportedSpec(f"{codec} has no {spec.sample_rate} Hz; it has {rates}", stage="plan", codec=codec)
        return spec.sample_rate
    if not offered:
        return source.sample_rate
    if source.sample_rate in offered and source.sample_rate <= DELIVERY_RATE:
        return source.sample_rate
    higher = [rate for rate in offered if source.sample_rate < rate <= DELIVERY_RATE]
    chosen = min(higher, default=DELIVERY_RATE)
    reasons.append(f"{source.sample_rate} Hz to {chosen} Hz")
    return chosen


def _layout(spec: AudioSpec, source: AudioInfo, codec: str, reasons: list[str]) -> str:
    offered = encoders.LAYOUTS[codec]
    if spec.channel_map is not None:
        return _mapped_layout(spec, spec.channel_map, codec)
    if spec.layout is not None and spec.layout not in offered:
        raise UnsupportedSpec(
            f"{codec} has no layout {spec.layout}; it has {', '.join(offered)}", stage="plan", codec=codec
        )
    names = speakers(source.layout, source.channels)
    kept = carrier(names, offered)
    wanted = spec.layout or kept
    if len(LAYOUTS[wanted]) > max(len(has_place(names)), len(LAYOUTS[kept])):
        reasons.append(f"{kept} kept: channels are not invented")
        wanted = kept
    known = source.layout if source.layout in LAYOUTS else f"{source.layout} ({' '.join(names)})"
    gains = matrix(names, wanted)
    if not keeps(wanted, names):
        quieter = loudness_db(gains) if spec.downmix == "scaled" else 0.0
        reasons.append(f"downmixed from {known} to {wanted}" + (f" at {quieter:.1f} dB" if quieter < -0.05 else ""))
    elif len(gains) > len(names) or not is_identity(gains):
        reasons.append(f"{known} put into {wanted}")
    elif source.layout != wanted:
        reasons.append(f"layout {source.layout} taken as {wanted}")
    return wanted


def _mapped_layout(spec: AudioSpec, channel_map: Sequence[int | str], codec: str) -> str:
    """The layout that is asked for, else the usual one for as many channels."""
    layout = spec.layout or BY_COUNT[len(channel_map)]
    if len(LAYOUTS[layout]) != len(channel_map):
        raise UnsupportedSpec(
            f"{layout} has {len(LAYOUTS[layout])} channels, channel_map has {len(channel_map)}", stage="plan"
        )
    if layout not in encoders.LAYOUTS[codec]:
        raise UnsupportedSpec(f"{codec} has no layout {layout}", stage="plan", codec=codec)
    return layout


def _filters(spec: AudioSpec, source: AudioInfo, layout: str, reasons: list[str]) -> list[Filter]:
    """All but the conversion to the encoder's format."""
    filters: list[Filter] = []
    names = speakers(source.layout, source.channels)
    if spec.channel_map is not None:
        filters.append(ChannelMap(channels=tuple(_place(channel, names, source) for channel in spec.channel_map)))
        reasons.append(f"channels {' '.join(map(str, spec.channel_map))} taken as {layout}")
    elif spec.loudness is None and spec.downmix == "level" and can_clip(matrix(names, layout, scaled=False)):
        filters.append(Limit(ceiling_dbfs=DOWNMIX_CEILING_DBFS))
        reasons.append(f"peaks of the downmix limited to {DOWNMIX_CEILING_DBFS:g} dBFS")
    if (wanted := spec.loudness) is not None:
        filters.append(Normalise(**wanted.model_dump()))
        peaks = "limited" if wanted.over_peak == "limit" else "kept by less gain"
        reasons.append(
            f"measured first, then one gain to {wanted.target_lufs:g} LUFS; "
            f"peaks above {wanted.true_peak_dbtp:g} dBTP {peaks}"
        )
    return filters


def _in_time(spec: AudioSpec, pace: Fraction, reasons: list[str]) -> list[Filter]:
    """What is done to sound that is whole and in its place."""
    filters: list[Filter] = []
    if pace != 1:
        filters.append(Tempo(pace=pace))
        reasons.append(f"played {float(pace):.6g} times as fast, at its own pitch")
    if spec.fade is not None:
        filters.append(SoundFade(in_seconds=spec.fade.in_seconds, out_seconds=spec.fade.out_seconds))
        reasons.append("faded as asked")
    return filters


def _place(channel: int | str, names: Sequence[str], source: AudioInfo) -> int:
    if isinstance(channel, int) and channel < source.channels:
        return channel
    if isinstance(channel, str) and channel in names:
        return names.index(channel)
    raise UnsupportedSpec(
        f"the sound has no channel {channel}; it has {' '.join(names)}", stage="plan", channels=list(names)
    )


def _sample_format(source: AudioInfo, encoder: str, reasons: list[str]) -> str:
    if encoder != "flac" or not _is_deep(source):
        return encoders.SAMPLE_FORMATS[encoder]
    reasons.append("24 bits")
    return "s32"


def _is_deep(source: AudioInfo) -> bool:
    """Whether the source has more than 16 bits. What lossy codecs decode to is no more exact for being a float."""
    return source.bits_per_sample is not None and source.bits_per_sample > 16


def _bitrate(spec: AudioSpec, codec: str, layout: str, sample_rate: int, reasons: list[str]) -> int | None:
    channels = len(LAYOUTS[layout])
    usual = usual_bitrate(codec, channels, sample_rate)
    if usual is None:
        return None
    if spec.bitrate is None:
        reasons.append(f"{usual // 1000} kbit/s, the usual for {layout}")
        return usual
    possible = POSSIBLE[codec](spec.bitrate, channels, sample_rate)
    asked = "" if possible == spec.bitrate else f", the nearest to {spec.bitrate / 1000:g} at {sample_rate} Hz {layout}"
    reasons.append(f"{possible // 1000} kbit/s{asked}")
    return possible
