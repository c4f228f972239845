"""Where each part of a plan runs: what a device can decode, filter and encode, and in words why it can't. Pure.

Nothing here is tried: a device's capabilities, its filters, and the verdicts on what failed there before decide.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.asked.streams import StreamJob
from pipelines.devices import Capability, Device, HardwareApi, Stage, Verdict
from pipelines.filters import Filter
from pipelines.hardware.encoders import SURFACES
from pipelines.hardware.filters import hardware_names, needs_mastering_display
from pipelines.rendition import Refusal
from pipelines.source import SubtitleInfo, VideoInfo
from pipelines.spec import FileJob, Rung

ANY_CODEC = "*"
"""Of a verdict: on the stage, whatever it works on."""

QSV_GENERATIONS = frozenset(
    {"Tiger Lake", "Rocket Lake", "Alder Lake", "Raptor Lake", "Alchemist", "Meteor Lake", "Arrow Lake", "Lunar Lake"}
    | {"DG1", "Battlemage", "Panther Lake", "Wildcat Lake"}
)
"""Where QSV's look-ahead is worth its way around VAAPI; on older ones VAAPI has the same encoders with less between."""

_SAME_AS: dict[str, str] = {"yuvj420p": "yuv420p", "yuvj422p": "yuv422p", "yuvj444p": "yuv444p"}
"""JPEG's formats are others with full range."""

_SUBSAMPLINGS = {"422": "4:2:2", "444": "4:4:4", "440": "4:4:0", "411": "4:1:1", "410": "4:1:0", "gray": "gray"}


class Site:
    """A device at which a job is planned, with the CPU beside it; it takes down what was refused and why."""

    def __init__(
        self,
        device: Device,
        cpu: Device,
        verdicts: Sequence[Verdict] = (),
        *,
        cpu_encodes: bool = True,
        subtitles: Sequence[SubtitleInfo] = (),
    ) -> None:
        """`cpu_encodes`: whether the CPU may encode what the GPU can't. `subtitles`: what pictures may be drawn on."""
        self.subtitles = subtitles
        self.device, self.cpu, self.cpu_encodes = device, cpu, cpu_encodes
        self._verdicts = tuple(verdict for verdict in verdicts if verdict.device == device.id)
        self._refusals: dict[Refusal, None] = {}
        self._decodes: dict[int, str | None] = {}

    @property
    def is_gpu(self) -> bool:
        return self.device.kind != "software"

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(self._refusals)

    def refuse(self, stage: Stage, option: str, reason: str) -> str:
        """Takes the refusal down, each once; gives the reason back."""
        self._refusals.setdefault(Refusal(device=self.device.id, stage=stage, option=option, reason=reason))
        return reason

    def decode_refusal(self, track: VideoInfo) -> str | None:
        """Why the track is not decoded on the GPU; None: it is."""
        if track.index not in self._decodes:
            reason = self._cannot_decode(track)
            if reason is not None:
                self.refuse("decode", f"hardware decode of {described(track)}", reason)
            self._decodes[track.index] = reason
        return self._decodes[track.index]

    def filter_refusal(self, track: VideoInfo, steps: Sequence[Filter], target: str) -> str | None:
        """Why `steps` don't run on the GPU's own frames; None: they do. `target` names the rendition."""
        reason = self._cannot_filter(track, steps)
        return reason and self.refuse("filter", f"hardware filters for {target}", reason)

    def formats(self, codec: str) -> tuple[str, ...]:
        """Formats in memory whose like the device's encoders of `codec` take."""
        surfaces = {name for c in self._capabilities("encode", codec) for name in surfaces_of(c)}
        return tuple(format for format, surface in SURFACES.get(codec, {}).items() if surface in surfaces)

    def encoders(self, codec: str, bit_depth: int, pixel_format: str, *, tone_mapped: bool) -> tuple[Capability, ...]:
        """What encodes pictures of this kind here, the best first."""
        surface = SURFACES.get(codec, {}).get(pixel_format)
        able = []
        for c in self._capabilities("encode", codec):
            judged = self._verdict("encode", codec, bit_depth, api=c.api)
            if judged is None and surface in surfaces_of(c):
                able.append(c)
            elif judged is not None:
                self.refuse("encode", f"hardware encode of {codec} ({bit_depth} bit) by {c.encoder}", judged)
        qsv_first = self.device.generation in QSV_GENERATIONS and not tone_mapped
        return tuple(sorted(able, key=lambda c: (c.api == "qsv") != qsv_first))

    def encode_refusal(self, codec: str, bit_depth: int, pixel_format: str) -> str:
        """Why `encoders` has none."""
        found = self._capabilities("encode", codec)
        judged = [self._verdict("encode", codec, bit_depth, api=api) for api in dict.fromkeys(c.api for c in found)]
        if judged and judged[0] is not None and None not in judged:
            return judged[0]
        if not found:
            return f"this device does not encode {codec}"
        if all(c.bit_depth != bit_depth for c in found):
            return f"this device encodes {codec} in {_depths(found)} only"
        return f"this device does not encode {codec} as {pixel_format}"

    def _capabilities(self, direction: str, codec: str) -> list[Capability]:
        return [
            c for c in self.device.capabilities if c.direction == direction and c.codec == codec and c.api is not None
        ]

    def _verdict(
        self, stage: Stage, codec: str, bit_depth: int, profile: str | None = None, *, api: HardwareApi | None = None
    ) -> str | None:
        for verdict in self._verdicts:
            if verdict.stage != stage or verdict.api not in (None, api):
                continue
            same = verdict.codec == codec and verdict.bit_depth == bit_depth
            if verdict.codec == ANY_CODEC or (same and verdict.profile in (None, profile)):
                return verdict.reason
        return None

    def _cannot_decode(self, track: VideoInfo) -> str | None:
        codec = track.codec
        judged = self._verdict("decode", codec, track.bit_depth, track.profile)
        if judged is not None:
            return judged
        found = self._capabilities("decode", codec)
        if not found:
            return f"this device does not decode {codec}"
        if track.pixel_format is None:
            return "the file does not say its pixel format"
        wanted = _SAME_AS.get(track.pixel_format, track.pixel_format)
        able = [c for c in found if wanted in c.pixel_formats]
        if not able:
            if all(c.bit_depth != track.bit_depth for c in found):
                return f"this device decodes {codec} in {_depths(found)} only"
            formats = sorted({name for c in found for name in c.pixel_formats})
            return f"this device decodes {codec} as {', '.join(formats)}, and this is {track.pixel_format}"
        reasons = [_misfit("decodes", c, track.width, track.height) for c in able]
        return None if None in reasons else reasons[0]

    def _cannot_filter(self, track: VideoInfo, steps: Sequence[Filter]) -> str | None:
        if self.decode_refusal(track) is not None:
            return "the pictures are decoded in memory, and filtered where they are"
        judged = self._verdict("filter", track.codec, track.bit_depth)
        if judged is not None:
            return judged
        if not self.device.filters:
            return "this build can't give filters the pictures of a GPU"
        for step in steps:
            names = hardware_names(step)
            if names is None:
                return f"there is no {step.kind} on the GPU"
            missing = [name for name in names if name not in self.device.filters]
            if missing:
                return f"{' and '.join(missing)} did not work on this device"
            if needs_mastering_display(step) and track.colour.mastering_display is None:
                return "the GPU's tone mapping needs the mastering display, which this file does not say"
        return None


def encodes_pictures(spec: FileJob | StreamJob) -> bool:
    """Whether the job asks for anything that a GPU encodes."""
    asked = [getattr(output, "video", None) for output in spec.outputs or ()]
    return any(isinstance(each, Rung | tuple) or each == "auto" for each in asked)


def described(track: VideoInfo) -> str:
    """Such as `h264 (10 bit, 4:2:2)`."""
    marks = [words for mark, words in _SUBSAMPLINGS.items() if mark in (track.pixel_format or "")]
    return f"{track.codec} ({', '.join([f'{track.bit_depth} bit', *marks])})"


def surfaces_of(capability: Capability) -> tuple[str, ...]:
    """The formats of the surfaces that an encoder takes, by its depth where it lists none."""
    return capability.pixel_formats or ("nv12" if capability.bit_depth == 8 else "p010le",)


def misfit(capability: Capability, width: int, height: int) -> str | None:
    """Why pictures of this size are not encoded; None: they are."""
    return _misfit("encodes", capability, width, height)


def _misfit(verb: str, capability: Capability, width: int, height: int) -> str | None:
    smallest, largest = capability.min_size, capability.max_size
    what = f"this device {verb} {capability.codec}"
    if largest is not None and (width > largest[0] or height > largest[1]):
        return f"{what} up to {largest[0]}×{largest[1]}, and this is {width}×{height}"
    if smallest is not None and (width < smallest[0] or height < smallest[1]):
        return f"{what} from {smallest[0]}×{smallest[1]} on, and this is {width}×{height}"
    return None


def _depths(found: Sequence[Capability]) -> str:
    return " and ".join(str(depth) for depth in sorted({c.bit_depth for c in found})) + " bits"
