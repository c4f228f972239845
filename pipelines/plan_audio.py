"""Decisions for one audio rendition: sample rate, channel layout, sample format, bitrate, encoder."""

from __future__ import annotations

from pipelines import encoders
from pipelines.audio_bitrates import POSSIBLE, usual_bitrate
from pipelines.devices import Device
from pipelines.downmix import LAYOUTS, carrier, has_place, is_identity, keeps, loudness_db, matrix, speakers
from pipelines.errors import UnsupportedSpec
from pipelines.filters import Resample
from pipelines.metadata import labels
from pipelines.rendition import AudioRendition
from pipelines.source import AudioInfo
from pipelines.spec import AUDIO_CODECS, AudioSpec

DELIVERY_RATE = 48_000
"""Lossy delivery goes no higher unless asked."""


def plan_audio(spec: AudioSpec, source: AudioInfo, container: str, device: Device, *, default: bool) -> AudioRendition:
    """The rendition of one source track; UnsupportedSpec when the codec can't do what is asked."""
    codec = spec.codec or AUDIO_CODECS[container][0]
    encoder = encoders.SOFTWARE_ENCODERS[codec]
    if device.encoder(encoder) is None:
        raise UnsupportedSpec(f"this FFmpeg has no {encoder}", stage="plan", encoder=encoder)
    reasons = [f"{codec} by {encoder}" + ("" if spec.codec else f" ({container}'s usual codec)")]
    sample_rate = _sample_rate(spec, source, codec, reasons)
    layout = _layout(spec, source, codec, reasons)
    sample_format = _sample_format(source, encoder, reasons)
    bit_rate = _bitrate(spec, codec, layout, sample_rate, reasons)
    options = {} if bit_rate is None else {"b": str(bit_rate)}
    if codec == "opus" and len(LAYOUTS[layout]) > 2:
        # the encoder's other way to place channels swaps those of 5.0 and 6.1
        options["mapping_family"] = "1"
    return AudioRendition(
        stream=source.index,
        codec=codec,
        encoder=encoder,
        options=options,
        filters=(Resample(sample_rate=sample_rate, layout=layout, sample_format=sample_format),),
        sample_rate=sample_rate,
        layout=layout,
        sample_format=sample_format,
        bit_rate=bit_rate,
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
        quieter = loudness_db(gains)
        reasons.append(f"downmixed from {known} to {wanted}" + (f" at {quieter:.1f} dB" if quieter < -0.05 else ""))
    elif len(gains) > len(names) or not is_identity(gains):
        reasons.append(f"{known} put into {wanted}")
    elif source.layout != wanted:
        reasons.append(f"layout {source.layout} taken as {wanted}")
    return wanted


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
