"""Decisions for one audio rendition: sample rate, channel layout, sample format, bitrate, encoder."""

from __future__ import annotations

from pipelines import encoders
from pipelines.devices import Device
from pipelines.errors import UnsupportedSpec
from pipelines.filters import Resample
from pipelines.rendition import AudioRendition
from pipelines.source import AudioInfo
from pipelines.spec import AUDIO_CODECS, AudioSpec

CHANNELS: dict[str, int] = {
    "mono": 1, "stereo": 2, "3.0": 3, "4.0": 4, "quad": 4, "5.0": 5, "5.1": 6, "6.1": 7, "7.1": 8,
}  # fmt: skip

SAME_PLACE: dict[str, str] = {
    "downmix": "stereo", "5.0(side)": "5.0", "5.1(side)": "5.1", "quad(side)": "quad", "6.1(back)": "6.1",
    "7.1(wide)": "7.1", "7.1(wide-side)": "7.1",
}  # fmt: skip
"""Layouts that differ from a delivery layout only in what the surround pair is called."""

DEFAULT_LAYOUTS: dict[int, str] = {
    1: "mono", 2: "stereo", 3: "3.0", 4: "quad", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1",
}  # fmt: skip

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
    sample_format = encoders.SAMPLE_FORMATS[encoder]
    options: dict[str, str] = {}
    if codec == "flac" and _is_deep(source):
        sample_format = "s32"
        reasons.append("24 bits kept")
    bit_rate = None
    if codec != "flac":
        bit_rate = spec.bitrate or default_bitrate(codec, CHANNELS[layout], sample_rate)
        options["b"] = str(bit_rate)
        reasons.append(f"{bit_rate // 1000} kbit/s" + ("" if spec.bitrate else f", the usual for {layout}"))
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
        language=source.language,
        title=source.title,
        default=default,
        forced=source.forced,
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


def normal_layout(source: AudioInfo) -> str:
    """The source's layout under its delivery name; the usual one for the channel count where it is not said."""
    layout = SAME_PLACE.get(source.layout, source.layout)
    return layout if layout in CHANNELS else DEFAULT_LAYOUTS.get(source.channels, "stereo")


def _layout(spec: AudioSpec, source: AudioInfo, codec: str, reasons: list[str]) -> str:
    layout = normal_layout(source)
    if layout != source.layout:
        reasons.append(f"layout {source.layout} taken as {layout}")
    offered = encoders.LAYOUTS[codec]
    if spec.layout is not None and spec.layout not in offered:
        raise UnsupportedSpec(
            f"{codec} has no layout {spec.layout}; it has {', '.join(offered)}", stage="plan", codec=codec
        )
    wanted = spec.layout or layout
    if CHANNELS[wanted] > CHANNELS[layout]:
        reasons.append(f"{layout} kept: channels are not invented")
        wanted = layout
    if wanted not in offered:
        fewer = [name for name in offered if CHANNELS[name] <= CHANNELS[wanted]]
        wanted = max(fewer, key=lambda name: CHANNELS[name])
    if wanted != layout:
        reasons.append(f"downmixed from {layout} to {wanted}")
    return wanted


def _is_deep(source: AudioInfo) -> bool:
    deep_format = (source.sample_format or "").startswith(("s32", "flt", "dbl", "s64"))
    lossy = source.codec in ("aac", "mp3", "opus", "vorbis", "ac3", "eac3", "mp2", "dts")
    return (source.bits_per_sample or 0) > 16 or (deep_format and not lossy and source.bits_per_sample is None)


def default_bitrate(codec: str, channels: int, sample_rate: int) -> int:
    """bit/s for the channel count; less for low sample rates, which have less to carry."""
    table = encoders.AUDIO_BITRATES[codec]
    known = max(count for count in table if count <= channels)
    bit_rate = table[known] * channels // known
    if sample_rate < 32_000:
        bit_rate = max(24_000, bit_rate * sample_rate // 48_000 // 8_000 * 8_000)
    return bit_rate
