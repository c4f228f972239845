"""The equivalent `ffmpeg` command line of a plan, for the curious. Pure.

It does with FFmpeg's own tool what the plan does: the same tracks, filters, encoders and options. It is an equivalent,
not what ran: gaps are not filled, damage is not counted, nothing is verified. `notes` say where it does less.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from pipelines.filters import Filter, Resample, SoundFade, Tempo, ToneMap
from pipelines.graph import VIDEO_STEPS
from pipelines.hardware.gpu import uses_hardware
from pipelines.packaging.layout import Packaging
from pipelines.receipt.values import Command
from pipelines.rendition import (
    AudioRendition,
    CopyRendition,
    OutputPlan,
    Plan,
    RenditionPlan,
    VideoRendition,
)
from pipelines.sound.filters import timed_steps
from pipelines.source import SourceInfo
from pipelines.steps import Fed, Step

PROGRAM = "ffmpeg"
MEDIA = {"video": "v", "audio": "a", "subtitle": "s", "picture": "v"}
COLOUR_OPTIONS = {
    "primaries": "color_primaries",
    "transfer": "color_trc",
    "matrix": "colorspace",
    "range": "color_range",
}
_SPECIAL = "\\':,;[]"


def equivalent(plan: Plan, source: SourceInfo, name: str) -> Command | None:
    """The command that reads a file called `name`.

    None for a GPU's plan, whose contexts take other commands, and where none of the outputs would be in it.
    """
    if uses_hardware(plan):
        return None
    notes: list[str] = []
    if plan.parts:
        notes.append("the inputs after the first, and the clips of all, are not in it")
    arguments = ["-hide_banner", "-noautorotate"]
    start = Fraction(plan.start_seconds) - Fraction(source.start_seconds)
    if start > 0:
        arguments += ["-ss", _number(start)]
    if plan.end_seconds is not None:
        arguments += ["-t", _number(Fraction(plan.end_seconds) - Fraction(plan.start_seconds))]
    arguments += ["-i", _file(name)]
    beside = {track.index for track in source.subtitles if track.beside is not None}
    made = [argument for output in plan.outputs for argument in _output(output, beside, notes)]
    if not made:
        return None
    arguments += made
    text = shlex.join([PROGRAM, *arguments])
    return Command(arguments=tuple(arguments), text=text, notes=tuple(dict.fromkeys(notes)))


def _file(name: str) -> str:
    """A name that FFmpeg takes for neither an option nor a protocol."""
    return f"file:{name}" if ":" in name or name.startswith("-") else name


def _output(output: OutputPlan, beside: set[int], notes: list[str]) -> Iterator[str]:
    if output.pictures is not None:
        notes.append(f"{output.path} is left out: no option chooses pictures as they were chosen here")
        return
    counts: Counter[str] = Counter()
    for rendition in output.renditions:
        if rendition.stream in beside:
            notes.append("subtitles from files beside the input are not in it")
            continue
        kind = _kind(rendition)
        yield from ("-map", f"0:{rendition.stream}")
        yield from _track(rendition, f"{kind}:{counts[kind]}", notes)
        counts[kind] += 1
    yield from ("-map_metadata", "0", "-map_chapters", "0" if output.chapters else "-1")
    if output.packaging is not None:
        yield from _ladder(output, output.packaging, notes)
        return
    for option, value in output.muxer_options.items():
        yield from (f"-{option}", value)
    yield from ("-f", output.muxer, _file(output.path))


def _kind(rendition: RenditionPlan) -> str:
    return MEDIA[rendition.media if isinstance(rendition, CopyRendition) else rendition.kind]


def _track(rendition: RenditionPlan, at: str, notes: list[str]) -> Iterator[str]:
    """`at`: which of the output's tracks, such as `v:0`."""
    if isinstance(rendition, CopyRendition):
        yield from (f"-c:{at}", "copy")
        if rendition.codec_tag is not None:
            yield from (f"-tag:{at}", rendition.codec_tag)
        if rendition.media == "picture":
            yield from (f"-disposition:{at}", "attached_pic")
        return
    if rendition.kind == "subtitle" and rendition.pace != 1:
        notes.append("subtitles are at the source's times in it")
    if isinstance(rendition, VideoRendition):
        yield from _picture(rendition, at, notes)
    elif isinstance(rendition, AudioRendition):
        yield from _sound(rendition, at, notes)
    yield from (f"-c:{at}", rendition.encoder)
    if isinstance(rendition, VideoRendition | AudioRendition):
        for option, value in rendition.options.items():
            yield from (f"-{option}:{at}", value)


def _picture(rendition: VideoRendition, at: str, notes: list[str]) -> Iterator[str]:
    steps = [*_steps(rendition.filters, notes)]
    if rendition.pace != 1:
        steps.append(("setpts", {"expr": f"(PTS-STARTPTS)*{rendition.pace.denominator}/{rendition.pace.numerator}"}))
    aspect = rendition.sample_aspect_ratio
    steps.append(("setsar", {"sar": f"{aspect.numerator}/{aspect.denominator}"}))
    if rendition.constant_rate:
        steps.append(("fps", {"fps": str(rendition.frame_rate)}))
    yield from (f"-filter:{at}", filter_text(steps))
    if rendition.constant_rate:
        yield from (f"-fps_mode:{at}", "cfr")
    else:
        # as fine as the source's own times, where the tool would round them to the frame rate
        yield from (f"-fps_mode:{at}", "passthrough", f"-enc_time_base:{at}", "1/90000")
    yield from (f"-pix_fmt:{at}", rendition.pixel_format)
    for field, option in COLOUR_OPTIONS.items():
        if (value := getattr(rendition.colour, field)) is not None:
            yield from (f"-{option}:{at}", value)
    gop = Fraction(rendition.gop_seconds).limit_denominator(1000)
    yield from (f"-force_key_frames:{at}", f"expr:gte(t,n_forced*{_number(gop)})")
    if rendition.codec_tag is not None:
        yield from (f"-tag:{at}", rendition.codec_tag)
    if rendition.keeps_rotation:
        notes.append("how players turn the picture is not in it")


def _steps(filters: tuple[Filter, ...], notes: list[str]) -> Iterator[Step]:
    for planned in filters:
        row = VIDEO_STEPS.get(type(planned))
        if row is None:
            notes.append(f"the filter {planned.kind} is not in it")
            continue
        if isinstance(planned, ToneMap):
            notes.append("the table of tone mapping is not in it: HDR's numbers would be shown as SDR's")
        yield from (step for step in row(planned) if not isinstance(step, Fed))


def _sound(rendition: AudioRendition, at: str, notes: list[str]) -> Iterator[str]:
    others = (planned.kind for planned in rendition.filters if not isinstance(planned, Resample | Tempo | SoundFade))
    notes.extend(f"the filter {kind} is not in it" for kind in others)
    form = {
        "sample_fmts": rendition.sample_format,
        "sample_rates": str(rendition.sample_rate),
        "channel_layouts": rendition.layout,
    }
    timed = timed_steps(rendition.filters, rendition.sample_rate, rendition.sample_format)
    yield from (f"-filter:{at}", filter_text([("aformat", form), *timed]))


def filter_text(steps: list[Step]) -> str:
    """A chain in the words of FFmpeg's filter descriptions."""
    chain = []
    for name, options in steps:
        told = ":".join(f"{key}={_escaped(value)}" for key, value in options.items())
        # once for the filter's own options, once more for the chain
        chain.append(f"{name}={_escaped(told, _SPECIAL.replace(':', ''))}" if told else name)
    return ",".join(chain)


def _escaped(value: str, special: str = "\\':") -> str:
    return "".join(f"\\{letter}" if letter in special else letter for letter in value)


def _ladder(output: OutputPlan, packaging: Packaging, notes: list[str]) -> Iterator[str]:
    """By FFmpeg's own muxers: a folder of each rung's is numbered there, and playlists of keyframes are not made."""
    notes.append("a ladder is packaged by FFmpeg's own muxer: names of files, manifests and bitrates in them differ")
    if packaging.encryption is not None:
        notes.append("nothing is encrypted")
    seconds = _number(packaging.grid)
    if "hls" not in packaging.manifests:
        yield from ("-f", "dash", "-seg_duration", seconds, _file(output.path))
        return
    if "dash" in packaging.manifests:
        notes.append("the DASH manifest is not in it")
    segment_type = "fmp4" if packaging.segment_format == "fmp4" else "mpegts"
    yield from ("-f", "hls", "-hls_time", seconds, "-hls_playlist_type", "vod", "-hls_segment_type", segment_type)
    folder, _, playlist = output.path.rpartition("/")
    yield from ("-master_pl_name", playlist, "-var_stream_map", _variants(output))
    yield _file(f"{folder}/%v/{playlist}")


def _variants(output: OutputPlan) -> str:
    kinds = [_kind(rendition) for rendition in output.renditions]
    video, audio = kinds.count("v"), kinds.count("a")
    group = ",agroup:sound" if audio and video else ""
    named = [f"v:{number}{group}" for number in range(video)]
    return " ".join([*named, *(f"a:{number}{group}" for number in range(audio))])


def _number(value: Fraction) -> str:
    return f"{float(value):.6f}".rstrip("0").rstrip(".")
