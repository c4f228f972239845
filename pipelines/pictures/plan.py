"""The plan of an output of pictures: of which track, of which moments, how large, how laid out. Pure."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from pipelines.asked.pictures import (
    MAX_SHEET_PIXELS,
    Best,
    ContactSheetOutput,
    Count,
    GifOutput,
    Interval,
    PictureOutput,
    PosterOutput,
    Scenes,
    ThumbnailsOutput,
    WebpOutput,
)
from pipelines.asked.rungs import Rung
from pipelines.errors import BadInput, LimitExceeded, UnsupportedSpec
from pipelines.filters import Filter
from pipelines.pictures.bounds import MAX_ANIMATION_PIXELS, check_count, expected_pictures
from pipelines.pictures.keyframes import keyframes_will_do
from pipelines.pictures.layout import (
    INDEX_NAME,
    PICTURE_CODECS,
    PICTURE_OPTIONS,
    SPRITES_NAME,
    AnimationLayout,
    At,
    BestOf,
    Every,
    Middles,
    Picks,
    SceneStarts,
    SheetLayout,
    Slots,
)
from pipelines.planning.choice import main_video
from pipelines.planning.conform import Canvas, conform
from pipelines.planning.output import Notes
from pipelines.planning.placement import Site
from pipelines.planning.timing import plan_fields
from pipelines.planning.video import picture_from
from pipelines.rendition import OutputPlan, PictureRendition
from pipelines.source import SourceInfo, VideoInfo

POSTER_CANDIDATES = 48
BEST_CANDIDATES = 8
LONGEST_SIDE = {"jpg": 32_767, "webp": 16_383}
"""Pixels; what WebP can say, and what readers of JPEG take."""


class PictureAssembly:
    """An output of pictures being put together."""

    def __init__(
        self, output: PictureOutput, source: SourceInfo, site: Site, notes: Notes, duration: float | None
    ) -> None:
        self.output, self.source, self.site, self.notes = output, source, site, notes
        self.duration = None if duration is None else Fraction(duration).limit_denominator(1_000_000)
        self.reasons: list[str] = []

    def plan(self) -> OutputPlan:
        output = self.output
        track = self._track()
        kind = "animated webp" if isinstance(output, WebpOutput) else getattr(output, "format", "gif")
        codec, encoder = PICTURE_CODECS[kind]
        if self.site.cpu.encoder(encoder) is None:
            raise UnsupportedSpec(f"this FFmpeg has no {encoder}", stage="plan", encoder=encoder)
        extension = kind.removeprefix("animated ")
        picks = self._picks()
        fields = plan_fields(Rung(), track, self.reasons)
        layout: dict[str, Any] = _LAYOUTS[type(output)](self, track)
        width, height = layout.pop("size")
        rendition = PictureRendition(
            stream=track.index,
            codec=codec,
            form=output.type,
            encoder=encoder,
            extension=extension,
            options=PICTURE_OPTIONS[encoder](getattr(output, "quality", 100)),
            filters=(*fields, *self._conform(track, width, height)),
            width=width,
            height=height,
            picks=picks,
            max_pictures=self._limit(),
            nearest=self._nearest(picks, track, fields),
            measures_duration=self._measures(picks),
            reason="; ".join([f"{codec} by {encoder}", *self.reasons]),
            **layout,
        )
        self._check_bounds(rendition)
        return OutputPlan(
            name=str(output.name),
            type=output.type,
            path=self._path(rendition),
            container=extension,
            muxer=extension,
            muxer_options={},
            renditions=(rendition,),
            chapters=None,
        )

    def _track(self) -> VideoInfo:
        track = main_video(self.source.video)
        if track is not None:
            for other in self.source.video:
                if other is not track:
                    self.notes.add("track_dropped", f"video track {other.index} is left out: pictures are of one track")
            return track
        if self.source.video:
            codec = self.source.video[0].codec
            raise BadInput(f"no decoder for the video ({codec})", stage="plan", codec=codec)
        cover = next((picture for picture in self.source.pictures if picture.decodable and picture.width), None)
        if cover is not None and isinstance(self.output, PosterOutput):
            self.reasons.append("there is no video: the cover picture")
            return cover
        raise UnsupportedSpec(
            "the input has no video to take pictures of" + ("; a poster would be its cover" if cover else ""),
            stage="plan",
            output=self.output.name,
        )

    def _picks(self) -> Picks:
        output = self.output
        match output:
            case ThumbnailsOutput(pick=Interval(seconds=seconds)):
                return Every(seconds=_exact(seconds))
            case ThumbnailsOutput(pick=Count(count=count)):
                return Middles(count=count)
            case ThumbnailsOutput(pick=Scenes() as scenes):
                return SceneStarts(threshold=scenes.threshold, min_seconds=_exact(scenes.min_seconds))
            case ThumbnailsOutput(pick=Best(count=count)):
                return BestOf(count=count, candidates=BEST_CANDIDATES)
            case ContactSheetOutput():
                return Middles(count=output.columns * output.rows)
            case PosterOutput(at_seconds=None):
                return BestOf(count=1, candidates=POSTER_CANDIDATES)
            case PosterOutput(at_seconds=float() as seconds):
                return At(seconds=_exact(seconds))
            case GifOutput() | WebpOutput():
                cuts = output.cuts
                if cuts is None or self._is_within(cuts.count * cuts.seconds):
                    return Slots(fps=_exact(output.fps))
                self.reasons.append(f"{cuts.count} pieces of {cuts.seconds:g} s, evenly spread")
                return Slots(fps=_exact(output.fps), cuts=cuts.count, seconds=_exact(cuts.seconds))
        raise AssertionError(output)

    def _is_within(self, seconds: float) -> bool:
        return self.duration is not None and self.duration <= seconds

    def _measures(self, picks: Picks) -> bool:
        if self.duration is not None or isinstance(picks, Every | SceneStarts | At):
            return False
        if isinstance(picks, Slots) and not picks.cuts:
            return False
        self.reasons.append("the input does not say how long it is: it is read once before")
        return True

    def _limit(self) -> int:
        output = self.output
        if isinstance(output, ThumbnailsOutput):
            return output.max_pictures
        return output.max_frames if isinstance(output, GifOutput | WebpOutput) else 10_000

    def _nearest(self, picks: Picks, track: VideoInfo, fields: tuple[Filter, ...]) -> bool:
        """Whether keyframes will do."""
        wish = self.output.decode if isinstance(self.output, ThumbnailsOutput) else "auto"
        if track not in self.source.video:
            return False
        will_do, reason = keyframes_will_do(wish, picks, self.source, track, fields, self.duration)
        if reason is not None:
            self.reasons.append(reason)
        return will_do

    def fit(self, track: VideoInfo, width: int | None, height: int | None) -> tuple[int, int]:
        """Pixels of the displayed picture within the box; never enlarged."""
        boxed = zip((width, height), track.display_size, strict=True)
        scale = min([Fraction(1), *(limit / side for limit, side in boxed if limit is not None)])
        shown_width, shown_height = (max(1, round(side * scale)) for side in track.display_size)
        size = shown_width, shown_height
        if (track.width, track.height) not in (size, size[::-1]):
            self.reasons.append(f"{size[0]}×{size[1]} in square pixels")
        return size

    def _conform(self, track: VideoInfo, width: int, height: int) -> tuple[Filter, ...]:
        if track.colour.is_hdr:
            self.reasons.append(f"HDR ({track.colour.transfer}) tone-mapped to BT.709")
        if track.rotation or track.mirrored:
            self.reasons.append(f"turned {track.rotation}° clockwise" + (", mirrored" if track.mirrored else ""))
        canvas = Canvas(width=width, height=height, pixel_format="gbrp")
        return conform(picture_from(track), canvas)

    def _check_bounds(self, rendition: PictureRendition) -> None:
        count = expected_pictures(rendition.picks, self.duration)
        if count is not None:
            check_count(count, rendition.max_pictures)
        if isinstance(rendition.picks, At) and self.duration is not None and rendition.picks.seconds >= self.duration:
            raise UnsupportedSpec(
                f"the input ends at {float(self.duration):g} s, before the poster's moment",
                stage="plan",
                duration_seconds=float(self.duration),
            )
        sheet = rendition.sheet
        if sheet is not None:
            width, height = sheet.size(sheet.rows)
            longest = LONGEST_SIDE[rendition.extension]
            if max(width, height) > longest or width * height > MAX_SHEET_PIXELS:
                raise UnsupportedSpec(
                    f"a sheet would be {width}×{height}: at most {longest} a side and {MAX_SHEET_PIXELS} pixels; take "
                    "fewer rows or columns, or smaller pictures",
                    stage="plan",
                    width=width,
                    height=height,
                )
        if rendition.form == "gif" and count is not None:
            check_pixels(rendition, count)

    def _path(self, rendition: PictureRendition) -> str:
        if isinstance(self.output, ThumbnailsOutput):
            return f"{self.output.name}/{SPRITES_NAME if rendition.sheet is not None else INDEX_NAME}"
        return f"{self.output.name}.{rendition.extension}"


def check_pixels(rendition: PictureRendition, frames: int) -> None:
    """LimitExceeded when a GIF is too large to be kept until its palette is known."""
    pixels = frames * rendition.width * rendition.height
    if pixels > MAX_ANIMATION_PIXELS:
        raise LimitExceeded(
            "limit_pictures",
            f"{frames} frames of {rendition.width}×{rendition.height} have more than the {MAX_ANIMATION_PIXELS} pixels "
            "that a GIF may have in all: take fewer, or smaller ones",
            stage="plan",
            limit=MAX_ANIMATION_PIXELS,
            pixels=pixels,
        )


def _thumbnails(assembly: PictureAssembly, track: VideoInfo) -> dict[str, Any]:
    output = assembly.output
    assert isinstance(output, ThumbnailsOutput)
    size = assembly.fit(track, output.width, output.height) if output.stills else (0, 0)
    if output.sprites is None:
        return {"size": size, "stills": True}
    tile = assembly.fit(track, output.sprites.width, None)
    sheet = SheetLayout(
        columns=output.sprites.columns, rows=output.sprites.rows, tile_width=tile[0], tile_height=tile[1]
    )
    return {"size": max(size, tile), "stills": output.stills, "sheet": sheet}


def _poster(assembly: PictureAssembly, track: VideoInfo) -> dict[str, Any]:
    output = assembly.output
    assert isinstance(output, PosterOutput)
    return {"size": assembly.fit(track, output.width, output.height), "stills": True}


def _contact_sheet(assembly: PictureAssembly, track: VideoInfo) -> dict[str, Any]:
    output = assembly.output
    assert isinstance(output, ContactSheetOutput)
    width, height = assembly.fit(track, output.width, None)
    red, green, blue = bytes.fromhex(output.background.removeprefix("#"))
    sheet = SheetLayout(
        columns=output.columns,
        rows=output.rows,
        tile_width=width,
        tile_height=height,
        gap=output.gap,
        background=(red, green, blue),
        timestamps=output.timestamps,
    )
    return {"size": (width, height), "sheet": sheet}


def _animation(assembly: PictureAssembly, track: VideoInfo) -> dict[str, Any]:
    output = assembly.output
    assert isinstance(output, GifOutput | WebpOutput)
    layout = AnimationLayout(fps=_exact(output.fps), loop=output.loop)
    if isinstance(output, GifOutput):
        layout = layout.model_copy(update={"colors": output.colors, "dither": output.dither})
    return {"size": assembly.fit(track, output.width, output.height), "animation": layout}


_LAYOUTS: dict[type[Any], Callable[[PictureAssembly, VideoInfo], dict[str, Any]]] = {
    ThumbnailsOutput: _thumbnails,
    PosterOutput: _poster,
    ContactSheetOutput: _contact_sheet,
    GifOutput: _animation,
    WebpOutput: _animation,
}


def _exact(seconds: float) -> Fraction:
    return Fraction(seconds).limit_denominator(1_000_000)
