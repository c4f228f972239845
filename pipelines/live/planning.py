"""What a stream's source and its job come to: encoders, copies, and which output gets which. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, Literal, TypeVar

from pipelines import encoders
from pipelines.asked.rungs import AudioSpec, Rung
from pipelines.asked.streams import (
    CARRIED,
    CmafOutput,
    HlsOutput,
    LiveOutput,
    PushOutput,
    RecordOutput,
    SnapshotOutput,
    StreamJob,
)
from pipelines.containers import LIVE_MKV
from pipelines.devices import Device, Verdict, software_device
from pipelines.errors import BadInput, UnsupportedSpec
from pipelines.planning.audio import plan_audio
from pipelines.planning.choice import main_video
from pipelines.planning.decode import check_encodes, plan_decoder
from pipelines.planning.placement import Site
from pipelines.planning.video import plan_video
from pipelines.rendition import AudioRendition, DecodePlan, OutputPlan, Plan, Refusal, VideoRendition
from pipelines.source import AudioInfo, SourceInfo, VideoInfo

R = TypeVar("R", VideoRendition, AudioRendition)

PLANNED_AS = {"fmp4": "mp4", "flv": "mp4", "rtp": "mp4"}
"""Containers of files whose rules live ones follow; others have their own name."""

PROMPT: dict[str, dict[str, str]] = {
    "libx264": {"bf": "0", "sc_threshold": "0", "rc-lookahead": "5", "x264-params": "sync-lookahead=0"},
    "libx265": {"bf": "0", "x265-params": "scenecut=0:rc-lookahead=5"},
    "libsvtav1": {"svtav1-params": "pred-struct=1"},
    "libvpx-vp9": {"deadline": "realtime", "lag-in-frames": "0", "auto-alt-ref": "0"},
    **{f"{codec}_{api}": {"bf": "0"} for codec in ("h264", "hevc") for api in ("vaapi", "qsv")},
}  # fmt: skip
"""Each picture leaves soon after it came in: no pictures that wait for later ones, keyframes only where asked."""


AT_ONCE: dict[str, dict[str, str]] = {
    "libx264": {"rc-lookahead": "0", "x264-params": "sliced-threads=1"},
    "libx265": {"x265-params": "rc-lookahead=0:frame-threads=1"},
}
"""On top of those where parts are published: a picture leaves before the next one comes, at some cost in bitrate."""


@dataclass(frozen=True)
class CopyPlan:
    """A track of the source that goes along as it is."""

    kind: Literal["video", "audio"]


@dataclass(frozen=True)
class Feed:
    """An output and the names of the tracks that it gets. The first one leads: its keyframes are where it is cut."""

    output: LiveOutput
    video: tuple[str, ...]
    audio: str | None

    @property
    def tracks(self) -> tuple[str, ...]:
        return (*self.video, *([self.audio] if self.audio else []))


@dataclass
class LivePlan:
    """By track names: what is encoded, what is copied. `refusals`: ways of the GPU that are not taken, and why."""

    device: Device = field(default_factory=lambda: software_device(1))
    verdicts: tuple[Verdict, ...] = ()
    decode: DecodePlan | None = None
    """Of the pictures, where they are decoded."""
    refusals: tuple[Refusal, ...] = ()
    video: dict[str, VideoRendition] = field(default_factory=dict)
    audio: dict[str, AudioRendition] = field(default_factory=dict)
    copies: dict[str, CopyPlan] = field(default_factory=dict)
    feeds: list[Feed] = field(default_factory=list)
    snapshots: list[SnapshotOutput] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self, speed: float | None) -> dict[str, Any]:
        """For people, and for `placed`; `speed` as it was measured, in times of real time."""
        return {
            "device": self.device.id,
            "device_path": self.device.path,
            "decode": [] if self.decode is None else [self.decode.model_dump(mode="json")],
            "refusals": [each.model_dump(mode="json") for each in self.refusals],
            "video": {name: each.model_dump(mode="json") for name, each in self.video.items()},
            "audio": {name: each.model_dump(mode="json") for name, each in self.audio.items()},
            "copies": {name: each.kind for name, each in self.copies.items()},
            "outputs": {str(feed.output.name): list(feed.tracks) for feed in self.feeds},
            "measured_speed": None if speed is None else round(speed, 2),
        }

    @property
    def decodes_video(self) -> bool:
        return bool(self.video or self.snapshots)

    @property
    def placed(self) -> Plan:
        """What runs where, as plans of files say it."""
        return placed(self.to_json(None))

    def decoding(self, track: VideoInfo) -> DecodePlan:
        """Where the pictures of a connection are decoded: a source may come back as another one."""
        source = SourceInfo(format="", video=(track,))
        site = Site(self.device, self.device, self.verdicts)
        return plan_decoder(track.index, track.codec, tuple(self.video.values()), source, site)


def placed(told: dict[str, Any]) -> Plan:
    """From a stream's plan as it was told: its stages as plans of files have them. ValidationError for other plans."""
    stages = {name: told.get(name) for name in ("device", "device_path", "decode", "refusals")}
    outputs = OutputPlan(
        name="stream", type="stream", path="stream", container="mkv", muxer="", muxer_options={},
        renditions=tuple(VideoRendition.model_validate(each) for each in told.get("video", {}).values()),
    )  # fmt: skip
    return Plan.model_validate(
        {**stages, "outputs": (outputs,), "start_seconds": 0.0, "end_seconds": None, "duration_seconds": None,
         "max_missing": 1.0}
    )  # fmt: skip


def plan_stream(
    job: StreamJob, source: SourceInfo, device: Device, *, verdicts: Sequence[Verdict] = (), cpu: Device | None = None
) -> LivePlan:
    """UnsupportedSpec where an output can't be made of this source; BadInput when there is nothing to see or hear.

    DeviceUnsuitable: nothing is left for the GPU to encode; another device may do.
    """
    video, audio = main_video(source.video), main_audio(source.audio)
    if video is None and audio is None:
        raise BadInput("the source has neither video nor audio that can be decoded", stage="plan")
    cpu = device if device.kind == "software" else cpu or software_device(1)
    cpu_encodes = job.device.policy == "auto" and job.device.fallback
    site = Site(device, cpu, verdicts, cpu_encodes=cpu_encodes)
    # of all outputs, so that what is equal is still encoded once
    at_once = any(isinstance(output, HlsOutput | CmafOutput) and output.low_latency for output in job.outputs)
    maker = _Maker(LivePlan(device, tuple(verdicts)), video, audio, site, AT_ONCE if at_once else {})
    for output in job.outputs:
        maker.add(output)
    if not maker.plan.feeds and not maker.plan.snapshots:
        raise UnsupportedSpec("nothing of the source goes into any output", stage="plan")
    check_encodes(site, maker.plan.video.values())
    if video is not None and maker.plan.video:
        maker.plan.decode = maker.plan.decoding(video)
    maker.plan.refusals = site.refusals
    return maker.plan


def main_audio(tracks: Sequence[AudioInfo]) -> AudioInfo | None:
    """The sound that is meant: decodable, marked default if any is, then the first."""
    decodable = [track for track in tracks if track.decodable]
    return next((track for track in decodable if track.default), decodable[0] if decodable else None)


@dataclass
class _Maker:
    plan: LivePlan
    video: VideoInfo | None
    audio: AudioInfo | None
    site: Site
    at_once: Mapping[str, dict[str, str]]

    def add(self, output: LiveOutput) -> None:
        if isinstance(output, SnapshotOutput):
            if self.video is None:
                raise UnsupportedSpec("the source has no pictures to take", stage="plan", output=output.name)
            self.plan.snapshots.append(output)
            return
        video = tuple(name for rung in output.rungs if (name := self._video(rung, output)) is not None)
        audio = self._audio(output.audio, output.container)
        if not video and audio is None:
            raise UnsupportedSpec("the source has nothing of what this output takes", stage="plan", output=output.name)
        self.plan.feeds.append(Feed(output, tuple(dict.fromkeys(video)), audio))

    def _video(self, rung: Rung | str, output: LiveOutput) -> str | None:
        if self.video is None:
            return None
        assert not isinstance(output, SnapshotOutput)
        if not isinstance(rung, Rung):
            self._check_copy(self.video, output.container, 0)
            return self._copy("video")
        codec = rung.codec or CARRIED[output.container][0][0]
        asked = rung.model_copy(update={"codec": codec, "gop_seconds": _gop_seconds(rung, output)})
        container = LIVE_MKV if output.container == "mkv" else PLANNED_AS.get(output.container, output.container)
        made = plan_video(asked, self.video, container, self.site)
        options = encoders.merge(made.options, PROMPT.get(made.encoder, {}), self.at_once.get(made.encoder, {}))
        return _named(self.plan.video, "v", made.model_copy(update={"options": options}))

    def _audio(self, asked: AudioSpec | str | None, container: str) -> str | None:
        if self.audio is None or asked is None:
            return None
        if not isinstance(asked, AudioSpec):
            self._check_copy(self.audio, container, 1)
            return self._copy("audio")
        codec = asked.codec or CARRIED[container][1][0]
        planned_as = PLANNED_AS.get(container, container)
        wanted = asked.model_copy(update={"codec": codec})
        made = plan_audio(wanted, self.audio, planned_as, self.site.cpu, default=True)
        return _named(self.plan.audio, "a", made)

    def _check_copy(self, track: VideoInfo | AudioInfo, container: str, place: Literal[0, 1]) -> None:
        carried = CARRIED[container][place]
        if track.codec not in carried and not (container == "mkv" and track.codec != "unknown"):
            raise UnsupportedSpec(
                f"{container} can't carry {track.codec} as it is; encode it",
                stage="plan",
                codec=track.codec,
                carried=list(carried),
            )

    def _copy(self, kind: Literal["video", "audio"]) -> str:
        name = f"{kind[0]}-copy"
        self.plan.copies[name] = CopyPlan(kind)
        return name


def _gop_seconds(rung: Rung, output: LiveOutput) -> float:
    """Keyframes at each segment's start; and between, as often as the rung asks."""
    if isinstance(output, PushOutput):
        return output.gop_seconds
    if isinstance(output, RecordOutput | SnapshotOutput):
        return rung.gop_seconds
    segment = Fraction(output.segment_seconds).limit_denominator(1000)
    return float(segment / ceil(segment / Fraction(rung.gop_seconds).limit_denominator(1000)))


def _named(known: dict[str, R], letter: str, made: R) -> str:
    """Its name; that of an equal one where there is one, so that nothing is encoded twice."""
    for name, other in known.items():
        if other.model_copy(update={"reason": ""}) == made.model_copy(update={"reason": ""}):
            return name
    name = f"{letter}{len(known)}"
    known[name] = made
    return name
