"""A plan: what will be done, where, and why. Pure values; `plan` makes them, `run` follows them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from pipelines.concat.values import Part
from pipelines.containers import ChapterStyle
from pipelines.devices import Stage
from pipelines.estimates.work import Estimate
from pipelines.filters import Filter
from pipelines.packaging.layout import Packaging
from pipelines.pictures.layout import AnimationLayout, Form, Picks, SheetLayout
from pipelines.planning.conform import Canvas
from pipelines.planning.framing import Framing
from pipelines.result import Warning
from pipelines.source import Colour, Facts, Ratio

Placement = Literal["software", "hardware"]


class DecodePlan(Facts):
    """One source track to decode."""

    stream: int
    kind: Literal["video", "audio", "subtitle"]
    decoder: str
    placement: Placement
    frames: Placement = "software"
    """Where decoded pictures lie: on the GPU when some rendition filters or encodes them there."""
    profile: str | None = None
    bit_depth: int = 8
    """Of what is decoded on a GPU: verdicts on it are by both."""
    keyframes_only: bool = False
    """Of a video track of which nothing but stills is made."""
    reason: str


class _Rendition(Facts):
    """`stream` is the source's stream index; language, title, default … are those of the output track."""

    stream: int
    codec: str
    language: str | None = None
    title: str | None = None
    default: bool = False
    forced: bool = False
    roles: tuple[str, ...] = ()
    pace: Ratio = Fraction(1)
    """Seconds of the source in a second of the output; the same for all of an output's tracks."""
    reason: str


class VideoRendition(_Rendition):
    """A video track to filter and encode."""

    kind: Literal["video"] = "video"
    encoder: str
    options: dict[str, str]
    codec_tag: str | None = None
    filters: tuple[Filter, ...]
    filter_placement: Placement = "software"
    """Pictures are moved where decoder, filters and encoder lie apart, and nowhere else."""
    placement: Placement
    """Where it is encoded. `pixel_format` is that of the pictures in memory, or of the surfaces on a GPU."""
    width: int
    height: int
    pixel_format: str
    sample_aspect_ratio: Ratio
    frame_rate: Ratio
    constant_rate: bool
    """True: frames at exactly `frame_rate`; False: the source's own timing is kept."""
    gop_frames: int
    gop_seconds: float
    colour: Colour = Colour()
    keeps_rotation: bool = False
    rotation: int = 0
    """What the file tells players to turn the picture by, clockwise, after mirroring it."""
    mirrored: bool = False
    framing: Framing | None = None
    """What is taken of pictures, and how they are turned, where that is not how they are."""
    inner: tuple[int, int] | None = None
    bars: str = "#000000"
    """See Canvas."""
    rung: int = 0
    """Which of the output's rungs it is of."""

    @property
    def canvas(self) -> Canvas:
        return Canvas(
            width=self.width,
            height=self.height,
            pixel_format=self.pixel_format,
            sample_aspect_ratio=self.sample_aspect_ratio,
            colour=self.colour,
            keeps_rotation=self.keeps_rotation,
            inner=self.inner,
            bars=self.bars,
        )


class AudioRendition(_Rendition):
    """An audio track to filter and encode."""

    kind: Literal["audio"] = "audio"
    encoder: str
    options: dict[str, str]
    filters: tuple[Filter, ...]
    placement: Placement = "software"
    sample_rate: int
    layout: str
    sample_format: str
    bit_rate: int | None = None


class SubtitleRendition(_Rendition):
    """A text subtitle track to convert."""

    kind: Literal["subtitle"] = "subtitle"
    encoder: str


class CopyRendition(_Rendition):
    """A track that goes along packet by packet."""

    kind: Literal["copy"] = "copy"
    media: Literal["video", "audio", "subtitle", "picture"]
    codec_tag: str | None = None
    sample_aspect_ratio: Fraction = Fraction(1)


class PictureRendition(_Rendition):
    """Pictures of a video track: filtered to RGB (planar) of `width` × `height`, then put together and encoded."""

    kind: Literal["pictures"] = "pictures"
    form: Form
    encoder: str
    options: dict[str, str] = {}
    extension: str
    filters: tuple[Filter, ...]
    filter_placement: Placement = "software"
    placement: Placement = "software"
    width: int
    height: int
    pixel_format: str = "gbrp"
    framing: Framing | None = None
    colour: Colour = Colour()
    picks: Picks
    max_pictures: int
    nearest: bool = False
    """Of the decoded pictures (keyframes) the nearest one is taken, else the one on screen."""
    stills: bool = False
    sheet: SheetLayout | None = None
    animation: AnimationLayout | None = None
    measures_duration: bool = False
    """The input does not say how long it is, and the moments depend on it: it is read once before."""

    @property
    def canvas(self) -> Canvas:
        return Canvas(width=self.width, height=self.height, pixel_format=self.pixel_format, colour=self.colour)


RenditionPlan = Annotated[
    VideoRendition | AudioRendition | SubtitleRendition | CopyRendition | PictureRendition, Field(discriminator="kind")
]


class OutputPlan(Facts):
    """One file, or a ladder: `path`, of what players open, is relative to the job's output folder."""

    name: str
    type: str
    path: str
    container: str
    """Its name in CONTAINERS."""
    muxer: str
    muxer_options: dict[str, str]
    renditions: tuple[RenditionPlan, ...]
    metadata: dict[str, str] = {}
    chapters: ChapterStyle | None = "entries"
    packaging: Packaging | None = None
    """None: one file, or pictures."""

    @property
    def pace(self) -> Fraction:
        return next((rendition.pace for rendition in self.renditions), Fraction(1))

    @property
    def pictures(self) -> PictureRendition | None:
        """What is made where the output is pictures."""
        first = self.renditions[0] if self.renditions else None
        return first if isinstance(first, PictureRendition) else None


class Refusal(Facts):
    """A way that was considered and not taken, and why."""

    device: str
    stage: Stage
    option: str
    """Such as `hardware decode of hevc (10 bit)`."""
    reason: str


class SizeLimit(Facts):
    """How large each output may get: a share of the source, or of the part of it that is taken."""

    share: float
    source_bytes: int
    max_bytes: int


class Plan(Facts):
    """A whole job. `start_seconds`/`end_seconds` bound what is taken, on the input's own clock."""

    device: str
    device_path: str | None = None
    """What the GPU is opened by; None for the CPU."""
    decode: tuple[DecodePlan, ...]
    outputs: tuple[OutputPlan, ...]
    start_seconds: float
    end_seconds: float | None
    duration_seconds: float | None
    """Of what is taken of the source, and of outputs whose pace is 1; None when the source does not tell."""
    max_missing: float
    parts: tuple[Part, ...] = ()
    """Of a job whose inputs are joined, in their order; the tracks above are then those of the whole."""
    size_limit: SizeLimit | None = None
    refusals: tuple[Refusal, ...] = ()
    """In the order of preference; empty when everything is where it is best."""
    estimate: Estimate | None = None
    warnings: tuple[Warning, ...] = ()

    def picture_steps(self) -> Iterator[Filter]:
        """All filters of all its encoded pictures."""
        for output in self.outputs:
            for rendition in output.renditions:
                if isinstance(rendition, VideoRendition):
                    yield from rendition.filters
