"""The plan of a ladder: its rungs, its groups of sound and subtitles, and their places. Pure."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from pathlib import PurePosixPath

from pipelines.asked.filters import with_common
from pipelines.asked.ladders import KEY_MASK, LADDER_AUDIO, LADDER_VIDEO, LadderOutput
from pipelines.asked.rungs import AudioSpec, Rung
from pipelines.errors import UnsupportedSpec
from pipelines.ladder import auto_rungs, paced, with_rate
from pipelines.metadata import labels
from pipelines.packaging.languages import language_tag
from pipelines.packaging.layout import (
    MANIFEST_NAMES,
    RANGES,
    EncryptionPlan,
    Packaging,
    PictureFacts,
    SoundFacts,
    TrackLayout,
    key_id_of,
    unique,
)
from pipelines.planning.copy import misfit
from pipelines.planning.output import Notes, OutputAssembly
from pipelines.planning.placement import Site
from pipelines.planning.size import seen_by
from pipelines.planning.timing import ASSUMED_RATE
from pipelines.planning.video import plan_video
from pipelines.rendition import AudioRendition, CopyRendition, OutputPlan, RenditionPlan, VideoRendition
from pipelines.sound.downmix import LAYOUTS
from pipelines.source import SourceInfo, VideoInfo

SUBTITLE_GROUP = "subs"
USUAL_ENTRIES = 4000
"""Segments that an index has room for where nothing is known of the duration."""


class LadderAssembly(OutputAssembly):
    """A ladder being put together."""

    output: LadderOutput

    def __init__(self, output: LadderOutput, source: SourceInfo, site: Site, notes: Notes, *, clipped: bool) -> None:
        super().__init__(output, source, site, notes)
        self.clipped = clipped

    def plan(self) -> OutputPlan:
        output = self.output
        renditions: list[RenditionPlan] = []
        layouts: list[TrackLayout] = []
        folders: set[str] = set()
        for rung in self._rungs():
            self._place(rung, self._video_layout(rung, folders), renditions, layouts, folders)
        for number, spec in enumerate(output.sounds):
            for sound in self._sounds(spec):
                layout = _audio_layout(sound, number, [spec.codec for spec in output.sounds], layouts, folders)
                self._place(sound, layout, renditions, layouts, folders)
        if not renditions:
            raise UnsupportedSpec("nothing of the input goes into this output", stage="plan", output=output.name)
        for text in self._subtitles(output.subtitles):
            self._place(text, _subtitle_layout(text, layouts, folders), renditions, layouts, folders)
        self._pictures()
        return OutputPlan(
            name=str(output.name),
            type=output.type,
            path=str(PurePosixPath(str(output.name), MANIFEST_NAMES[output.manifests[0]])),
            container=output.container,
            muxer=self.container.muxer,
            muxer_options={},
            renditions=tuple(renditions),
            chapters=None,
            packaging=Packaging(
                manifests=output.manifests,
                segment_format=output.segment_format,
                segment_seconds=output.segment_seconds,
                single_file=output.single_file,
                iframes=output.has_iframes,
                index_entries=self._index_entries(),
                encryption=self._encryption(),
                tracks=tuple(layouts),
            ),
        )

    def _encryption(self) -> EncryptionPlan | None:
        key = self.output.key
        if key is None:
            return None
        if key.key == KEY_MASK:
            raise UnsupportedSpec("the key is asterisks, which are shown in place of one", stage="plan")
        made = EncryptionPlan.model_validate(key.model_dump())
        if key.method != "sample-aes" or self.output.segment_format == "ts":
            return made
        return made.model_copy(update={"key_id": key.key_id or key_id_of(key.uri)})

    @staticmethod
    def _place(
        rendition: RenditionPlan,
        layout: TrackLayout,
        renditions: list[RenditionPlan],
        layouts: list[TrackLayout],
        folders: set[str],
    ) -> None:
        renditions.append(rendition)
        layouts.append(layout)
        folders.add(layout.folder)

    def _rungs(self) -> list[VideoRendition | CopyRendition]:
        """The ladder's rungs, each once; what lies above the source makes way for what comes to the same."""
        output = self.output
        if output.video is None:
            return []
        if not self.source.video:
            self._lacks("video", "video")
            return []
        track = self._picture()
        if track is None:
            return []
        usual = LADDER_VIDEO[output.kind][0]
        common = paced(seen_by(output.common, track), output.pace)
        asked = output.video if isinstance(output.video, tuple) else auto_rungs(common, usual)
        made: list[tuple[Rung, VideoRendition]] = []
        for number, rung in enumerate(asked):
            filters = with_common(output.common, rung.filters)
            rung = rung.model_copy(update={"codec": rung.codec or usual, "filters": filters})
            rung = with_rate(rung, paced(seen_by(filters, track), output.pace))
            rung = rung.model_copy(update={"gop_seconds": _gop_seconds(rung.gop_seconds, output.segment_seconds)})
            planned = plan_video(rung, track, output.container, self.site, output.pace)
            made.append((rung, planned.model_copy(update={"rung": number})))
        kept: list[VideoRendition | CopyRendition] = []
        for rung, rendition in made:
            same = [other for other, twin in made if other is not rung and _same_picture(rendition, twin)]
            seen = seen_by(rung.filters, track)
            if _is_above(rung, seen) and any(_is_nearer(other, rung, seen) for other in same):
                self.notes.add("rung_dropped", f"a rung of {_asked(rung)} is left out: the source is smaller")
                continue
            kept.append(self._copied(rung, rendition, track))
        return kept

    def _copied(self, rung: Rung, encoded: VideoRendition, track: VideoInfo) -> VideoRendition | CopyRendition:
        """The source as it is, where that is asked for and satisfies the rung; else `encoded`, which says why not."""
        if not self.output.copy_if_fits:
            return encoded
        reason = misfit(rung, track, self.output.segment_seconds, clipped=self.clipped)
        if self.output.pace != 1:
            reason = "it is played at another speed"
        if reason is not None:
            return encoded.model_copy(update={"reason": f"{encoded.reason}; not copied: {reason}"})
        return CopyRendition(
            stream=track.index,
            codec=track.codec,
            media="video",
            codec_tag=encoded.codec_tag,
            sample_aspect_ratio=track.sample_aspect_ratio,
            **labels(track, default=True),
            reason=f"copied: {track.codec}, size, bitrate and keyframes of the source satisfy the rung",
        )

    def _video_layout(self, rendition: VideoRendition | CopyRendition, folders: set[str]) -> TrackLayout:
        if isinstance(rendition, VideoRendition):
            width, height = round(rendition.width * rendition.sample_aspect_ratio), rendition.height
            rate, transfer = rendition.frame_rate, rendition.colour.transfer
        else:
            track = next(track for track in self.source.video if track.index == rendition.stream)
            width, height = track.width, track.height
            rate, transfer = track.frame_rate or ASSUMED_RATE, track.colour.transfer
        name = f"{min(width, height)}p"
        return TrackLayout(
            kind="video",
            folder=name if name not in folders else unique(f"{name}-{rendition.codec}", folders),
            picture=PictureFacts(width=width, height=height, frame_rate=rate, video_range=RANGES.get(transfer, "SDR")),
        )

    def _index_entries(self) -> int:
        """Room for what the source promises, and some more."""
        if not self.output.single_file or "dash" not in self.output.manifests:
            return 0
        seconds = self.source.duration_seconds
        seconds = None if seconds is None else seconds / float(self.output.pace)
        return USUAL_ENTRIES if seconds is None else min(60_000, ceil(seconds / self.output.segment_seconds * 1.1) + 16)

    def _sounds(self, spec: AudioSpec) -> list[AudioRendition]:
        codec = spec.codec or LADDER_AUDIO[self.output.kind][0]
        made = self._audio(spec.model_copy(update={"codec": codec}))
        return [rendition for rendition in made if isinstance(rendition, AudioRendition)]


def _gop_seconds(asked: float, segment_seconds: float) -> float:
    """The longest GOP within what is asked that a segment is a multiple of."""
    segment = Fraction(segment_seconds).limit_denominator(1000)
    return float(segment / ceil(segment / Fraction(asked).limit_denominator(1000)))


def _same_picture(one: VideoRendition, other: VideoRendition) -> bool:
    def facts(r: VideoRendition) -> tuple[object, ...]:
        return r.codec, r.width, r.height, r.frame_rate, r.pixel_format, r.filters

    return facts(one) == facts(other)


def _is_above(rung: Rung, source: VideoInfo) -> bool:
    """Whether it asks for more than the source has, in each side that it names."""
    sides = zip((rung.width, rung.height), source.display_size, strict=True)
    named = [(asked, own) for asked, own in sides if asked is not None]
    return bool(named) and not rung.upscale and all(asked > own for asked, own in named)


def _is_nearer(other: Rung, rung: Rung, source: VideoInfo) -> bool:
    """Whether `other` is one that fits the source, or asks for less too much."""
    return not _is_above(other, source) or _excess(other, source) < _excess(rung, source)


def _excess(rung: Rung, source: VideoInfo) -> Fraction:
    sides = zip((rung.width, rung.height), source.display_size, strict=True)
    return max(Fraction(asked) / own for asked, own in sides if asked is not None)


def _asked(rung: Rung) -> str:
    return " × ".join(str(side or "any") for side in (rung.width, rung.height))


def _audio_layout(
    rendition: AudioRendition, number: int, codecs: list[str | None], layouts: list[TrackLayout], folders: set[str]
) -> TrackLayout:
    """A group for each of the output's sounds; players choose among a group's tracks by language."""
    named = len(codecs) > 1
    group = f"audio-{rendition.codec}" if named else "audio"
    if codecs[:number].count(codecs[number]):
        group = f"{group}-{number + 1}"
    language = language_tag(rendition.language)
    taken = [layout.name for layout in layouts if layout.group == group]
    parts = ["audio", language or "", rendition.codec if named else ""]
    return TrackLayout(
        kind="audio",
        folder=unique("-".join(part for part in parts if part), folders),
        group=group,
        name=unique(rendition.title or language or "sound", taken),
        language=language,
        default=rendition.default,
        roles=rendition.roles,
        sound=SoundFacts(channels=len(LAYOUTS[rendition.layout]), sample_rate=rendition.sample_rate),
    )


def _subtitle_layout(rendition: RenditionPlan, layouts: list[TrackLayout], folders: set[str]) -> TrackLayout:
    language = language_tag(rendition.language)
    taken = [layout.name for layout in layouts if layout.group == SUBTITLE_GROUP]
    return TrackLayout(
        kind="subtitle",
        folder=unique(f"{SUBTITLE_GROUP}-{language}" if language else SUBTITLE_GROUP, folders),
        group=SUBTITLE_GROUP,
        name=unique(rendition.title or language or "subtitles", taken),
        language=language,
        default=rendition.default,
        forced=rendition.forced,
        roles=rendition.roles,
    )
