"""The plan of one output: which of the source's tracks go into it, and how. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipelines.asked.filter_output import sounding_fade
from pipelines.asked.filters import with_common
from pipelines.asked.rungs import SoundFade
from pipelines.containers import CONTAINERS, Container
from pipelines.errors import BadInput, UnsupportedSpec
from pipelines.metadata import kept_tags, labels
from pipelines.planning.audio import plan_audio
from pipelines.planning.choice import default_of, main_video, select
from pipelines.planning.muxers import muxed_codecs
from pipelines.planning.placement import Site
from pipelines.planning.video import plan_video
from pipelines.rendition import CopyRendition, OutputPlan, RenditionPlan, SubtitleRendition
from pipelines.result import Warning
from pipelines.source import AudioInfo, SourceInfo, SubtitleInfo, VideoInfo
from pipelines.spec import (
    AudioOutput,
    AudioSpec,
    CopyOutput,
    FileOutput,
    LadderOutput,
    Rung,
    SubtitleOutput,
    SubtitleSpec,
)

TWO_LAYERS = (4, 7)
"""Profiles of Dolby Vision whose base layer is HDR10 or SDR whatever the record says: it is of Blu-ray's kind."""
UNKNOWN_CODEC = "unknown"
"""What probing says where FFmpeg does not know the codec: nothing can be done with such a track."""


def check_dolby_vision(track: VideoInfo) -> None:
    """UnsupportedSpec for pictures in a colour space of Dolby's own, which nothing here can show."""
    about = track.dolby_vision
    if about is not None and about.compatible == 0 and about.profile not in TWO_LAYERS:
        raise UnsupportedSpec(
            f"Dolby Vision profile {about.profile} has no base layer that other decoders can show: copy it",
            stage="plan",
            dolby_vision_profile=about.profile,
        )


class Notes:
    """Warnings, each said once."""

    def __init__(self) -> None:
        self._warnings: dict[tuple[str, str], Warning] = {}

    def add(self, code: str, message: str) -> None:
        self._warnings.setdefault((code, message), Warning(code=code, message=message))

    def warnings(self) -> tuple[Warning, ...]:
        return tuple(self._warnings.values())


class OutputAssembly:
    """What outputs of all kinds are put together from."""

    def __init__(self, output: FileOutput | LadderOutput, source: SourceInfo, site: Site, notes: Notes) -> None:
        self.output, self.source, self.site, self.notes = output, source, site, notes
        self.container: Container = CONTAINERS[output.container]

    def _picture(self) -> VideoInfo | None:
        """The video track that is encoded; None (or BadInput where nothing else is there) when it has no decoder."""
        track = main_video(self.source.video)
        self._leave_others(track)
        if track is None and self.source.video:
            codec = self.source.video[0].codec
            if not self.source.audio:
                raise BadInput(f"no decoder for the video ({codec})", stage="plan", codec=codec)
            self.notes.add("track_dropped", f"no decoder for the video ({codec}): sound only")
        if track is not None and track.dolby_vision is not None:
            check_dolby_vision(track)
            self.notes.add(
                "dolby_vision_dropped",
                f"Dolby Vision's metadata (profile {track.dolby_vision.profile}) is left out: its base layer is used",
            )
        return track

    def _lacks(self, field: str, kind: str) -> None:
        """The input has no track of that kind: a warning where one was asked for, by more than the default's word."""
        asked = getattr(self.output, field)
        if asked not in (None, type(self.output).model_fields[field].default):
            self.notes.add(f"no_{field}", f"the input has no {kind}, which was asked for: the output is without")

    def _leave_others(self, track: VideoInfo | None) -> None:
        for other in self.source.video:
            if track is not None and other is not track:
                self.notes.add("track_dropped", f"video track {other.index} is left out: one video track per file")

    def _audio(self, spec: AudioSpec | str | None) -> list[RenditionPlan]:
        spec = self._faded(spec) if isinstance(spec, AudioSpec) else spec
        if spec is None:
            return []
        if not self.source.audio:
            if isinstance(spec, AudioSpec) and (spec.languages or isinstance(spec.tracks, tuple)):
                raise UnsupportedSpec("no audio track is as asked: the input has no sound", stage="plan", tracks=0)
            self._lacks("audio", "sound")
            return []
        if not isinstance(spec, AudioSpec):
            return self._copies(
                self.source.audio[: self.container.tracks_per_type], "audio", self.container.copies_audio
            )
        tracks = self._chosen_audio(spec)
        default = default_of(tracks)
        return [
            plan_audio(
                spec, track, self.output.container, self.site.cpu, default=track is default, pace=self.output.pace
            )
            for track in tracks
        ]

    def _faded(self, spec: AudioSpec) -> AudioSpec:
        """With the fade of the pictures, where that is meant for the sound too and it has none of its own."""
        rung = getattr(self.output, "video", None)
        own = rung.filters if isinstance(rung, Rung) else ()
        fade = sounding_fade(with_common(self.output.common, own))
        if fade is None or spec.fade is not None:
            return spec
        return spec.model_copy(update={"fade": SoundFade(in_seconds=fade.in_seconds, out_seconds=fade.out_seconds)})

    def _chosen_audio(self, spec: AudioSpec) -> list[AudioInfo]:
        tracks = spec.tracks or ("default" if isinstance(self.output, AudioOutput) else "all")
        chosen = select(self.source.audio, tracks, spec.languages)
        if not chosen:
            raise UnsupportedSpec("no audio track is as asked", stage="plan", tracks=len(self.source.audio))
        decodable = [track for track in chosen if track.decodable]
        for track in chosen:
            if not track.decodable:
                self.notes.add("track_dropped", f"audio track {track.index}: no decoder for {track.codec}")
        if not decodable:
            if isinstance(self.output, AudioOutput) or not self.source.video:
                raise BadInput(f"no decoder for the sound ({chosen[0].codec})", stage="plan", codec=chosen[0].codec)
            return []
        limit = self.container.tracks_per_type
        for track in decodable[limit:] if limit else []:
            self.notes.add("track_dropped", f"audio track {track.index} is left out: one per {self.output.container}")
        return decodable[:limit]

    def _subtitles(self, spec: SubtitleSpec | None) -> list[RenditionPlan]:
        if spec is None:
            return []
        chosen = select(self.source.subtitles, spec.tracks, spec.languages)
        if not chosen and spec.languages:
            wanted = ", ".join(spec.languages)
            self.notes.add("no_subtitles", f"the input has no subtitles in {wanted}: the output is without")
        planned: list[RenditionPlan] = []
        # who names a file says more than who made the input
        own_last = sorted(chosen, key=lambda track: track.beside is None)
        default = next((track for track in own_last if track.default), None)
        for track in chosen:
            index, about = track.index, {**labels(track, default=track is default), "pace": self.output.pace}
            copies, own = self.container.copies_subtitles, self.container.subtitle_codec
            if copies is None or track.codec in copies:
                planned.append(
                    CopyRendition(
                        stream=index,
                        codec=track.codec,
                        media="subtitle",
                        reason=f"{_from(track)}goes along as it is",
                        **about,
                    )
                )
            elif track.kind == "text" and track.decodable and own and self.site.cpu.encoder(own):
                reason = f"{_from(track)}{track.codec} to {own}, {self.output.container}'s kind"
                planned.append(SubtitleRendition(stream=index, codec=own, encoder=own, reason=reason, **about))
            else:
                self.notes.add(
                    "subtitle_dropped",
                    f"subtitle track {track.index} ({track.codec}) does not go into {self.output.container}",
                )
        return planned

    def _pictures(self) -> list[RenditionPlan]:
        if not self.source.pictures:
            return []
        picture = self.source.pictures[0]
        if not self.container.cover_art or picture.codec not in ("mjpeg", "png"):
            self.notes.add(
                "cover_dropped", f"{self.output.container} does not take the cover picture ({picture.codec})"
            )
            return []
        reason = "cover picture kept"
        return [CopyRendition(stream=picture.index, codec=picture.codec, media="picture", reason=reason)]

    def _copies(
        self, tracks: Sequence[VideoInfo] | Sequence[AudioInfo], media: str, carried: frozenset[str] | None
    ) -> list[RenditionPlan]:
        """Tracks that go along; at least one of a type that is there must, the others are dropped with a warning."""
        known = [track for track in tracks if track.codec != UNKNOWN_CODEC]
        taken = muxed_codecs(self.container.muxer) if carried is None else carried
        kept = [track for track in known if track.codec in taken]
        if known and not kept:
            codecs = ", ".join(sorted({track.codec for track in tracks}))
            instead = " or take mkv" if any(track.codec in muxed_codecs("matroska") for track in known) else ""
            raise UnsupportedSpec(
                f"{self.output.container} can't carry {codecs} as it is; transcode the {media}{instead}",
                stage="plan",
                output=self.output.name,
            )
        for track in tracks:
            if track not in kept:
                self.notes.add("track_dropped", f"{media} track {track.index} ({track.codec}) does not fit")
        default = default_of(kept)
        hvc1 = self.output.container in ("mp4", "mov", "fmp4")
        return [
            CopyRendition(
                stream=track.index,
                codec=track.codec,
                media=media,
                codec_tag="hvc1" if track.codec == "hevc" and hvc1 else None,
                sample_aspect_ratio=track.sample_aspect_ratio if isinstance(track, VideoInfo) else Fraction(1),
                **labels(track, default=track is default),
                reason=f"{track.codec} copied without re-encoding",
            )
            for track in kept
        ]


def _from(track: SubtitleInfo) -> str:
    origin = track.beside
    if origin is None:
        return ""
    later = f", {origin.offset_seconds:+g} s" if origin.offset_seconds else ""
    return f"{origin.name}, {origin.charset}{' by its bytes' if origin.guessed else ''}{later}: "


class FileAssembly(OutputAssembly):
    """A file being put together."""

    output: FileOutput

    def plan(self, *, clipped: bool) -> OutputPlan:
        output, container = self.output, self.container
        if isinstance(output, CopyOutput):
            renditions = self._copied_all()
        elif isinstance(output, SubtitleOutput):
            renditions = self._sidecar(output)
        elif isinstance(output, AudioOutput):
            renditions = [*self._audio(output.audio), *self._pictures()]
            if not any(rendition.kind == "audio" or self._is_audio_copy(rendition) for rendition in renditions):
                raise UnsupportedSpec("the input has no sound", stage="plan", output=output.name)
        else:
            renditions = [*self._video(output.video), *self._audio(output.audio), *self._subtitles(output.subtitles)]
            renditions += self._pictures()
            if clipped and output.video == "copy" and any(rendition.kind == "audio" for rendition in renditions):
                raise UnsupportedSpec(
                    "a clip of copied video starts at a keyframe: copy its sound too, or encode both",
                    stage="plan",
                    output=output.name,
                )
        if not isinstance(output, SubtitleOutput) and not any(
            rendition.kind in ("video", "audio") or self._is_av_copy(rendition) for rendition in renditions
        ):
            raise UnsupportedSpec("nothing of the input goes into this output", stage="plan", output=output.name)
        return OutputPlan(
            name=str(output.name),
            type=output.type,
            path=f"{output.name}.{container.extension}",
            container=output.container,
            muxer=container.muxer,
            muxer_options=container.options,
            renditions=tuple(renditions),
            metadata=kept_tags(self.source.metadata),
            chapters=container.chapters,
        )

    def _sidecar(self, output: SubtitleOutput) -> list[RenditionPlan]:
        """The one track that is asked for; UnsupportedSpec where there is none, or it is of pictures."""
        tracks = "all" if output.track is None else (output.track,)
        spec = SubtitleSpec(tracks=tracks, languages=None if output.language is None else (output.language,))
        chosen = select(self.source.subtitles, spec.tracks, spec.languages)
        planned = self._subtitles(spec)
        if not chosen or not planned:
            why = "no subtitle track is as asked" if not chosen else f"{chosen[0].codec} can't be made text"
            raise UnsupportedSpec(why, stage="plan", output=output.name, tracks=len(self.source.subtitles))
        return planned[:1]

    @staticmethod
    def _is_audio_copy(rendition: RenditionPlan) -> bool:
        return isinstance(rendition, CopyRendition) and rendition.media == "audio"

    @staticmethod
    def _is_av_copy(rendition: RenditionPlan) -> bool:
        return isinstance(rendition, CopyRendition) and rendition.media in ("audio", "video")

    def _video(self, rung: Rung | str | None) -> list[RenditionPlan]:
        if rung is None:
            return []
        if not self.source.video:
            self._lacks("video", "video")
            return []
        if isinstance(rung, Rung):
            track = self._picture()
            rung = rung.model_copy(update={"filters": with_common(self.output.common, rung.filters)})
            container, pace = self.output.container, self.output.pace
            return [] if track is None else [plan_video(rung, track, container, self.site, pace)]
        track = main_video(self.source.video) or self.source.video[0]
        self._leave_others(track)
        return self._copies((track,), "video", self.container.copies_video)

    def _copied_all(self) -> list[RenditionPlan]:
        video: list[RenditionPlan] = []
        if self.container.copies_video == frozenset() and self.source.audio:
            for track in self.source.video:
                self.notes.add(
                    "track_dropped", f"video track {track.index} is left out: {self.output.container} is sound"
                )
        else:
            video = self._copies(self.source.video, "video", self.container.copies_video)
        audio = self._copies(self.source.audio, "audio", self.container.copies_audio)
        return [*video, *audio, *self._subtitles(SubtitleSpec()), *self._pictures()]
