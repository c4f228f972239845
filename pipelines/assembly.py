"""Putting a run together: writers, encoders, filters and decoders of a plan, and the channels between them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from av.container import InputContainer
from av.packet import Packet

from pipelines.captions.beside import Texts
from pipelines.captions.drawing import write_captions
from pipelines.captions.subtitles import SubtitleCopy, Subtitles, SubtitleTrack
from pipelines.channel import Channel
from pipelines.completeness import check_complete, exact_end
from pipelines.containers import CONTAINERS, Container
from pipelines.copy_track import CopyClock, CopyTrack
from pipelines.covers import Cover, read_cover
from pipelines.encode import AudioEncoder, VideoEncoder, encoder_time_base
from pipelines.facts.picture_order import UNTIMED_CODECS, UNTIMED_FORMATS, PictureOrder
from pipelines.facts.samples import SLOT_FORMATS
from pipelines.filters import Normalise
from pipelines.graph import VideoGraph
from pipelines.hardware.decoding import DecodeWatch
from pipelines.hardware.encoding import HardwareEncoder, encode_work
from pipelines.hardware.gpu import HELD_FRAMES, Gpu, decode_work, decoder_context
from pipelines.hardware.graph import HardwareGraph
from pipelines.limits import Limits
from pipelines.metadata import clipped_chapters
from pipelines.mux import Writer
from pipelines.opening.input import LocalFile
from pipelines.opening.stills import read_images
from pipelines.packaging.package import Package, open_writer
from pipelines.packaging.sealing.blocks import Cipher
from pipelines.pictures.folder import PictureFolder
from pipelines.pictures.measure import taken_seconds
from pipelines.pictures.worker import PictureWorker
from pipelines.rendition import (
    AudioRendition,
    CopyRendition,
    OutputPlan,
    PictureRendition,
    Plan,
    SubtitleRendition,
    VideoRendition,
)
from pipelines.sound.graph import AudioGraph, end_in_samples
from pipelines.sound.loudness import LoudnessMeter
from pipelines.sound.worker import AudioTarget, AudioWorker
from pipelines.source import SourceInfo, VideoInfo
from pipelines.tally import Tally
from pipelines.tracks import Holes, Span, TrackState, span_of
from pipelines.video.overlays import Scene
from pipelines.video.worker import VideoDecoder, VideoWorker
from pipelines.warning_log import WarningLog

FRAME_BUFFER_BYTES = 64 << 20
"""Decoded frames waiting for one rendition: as many as fit here, 3 to 16."""
PACKET_CAPACITY = 64


class Follower(Protocol):
    """What is told of each packet of a track as it is read, on the reading thread."""

    def write(self, packet: Packet[Any], time_base: Fraction, *, shared: bool) -> None: ...

    def drain(self, time_base: Fraction) -> None: ...

    def finish(self, time_base: Fraction) -> None: ...


class Assembly:
    """What one run is made of: `threads` to run, and `packets` and `copies` to feed."""

    def __init__(
        self,
        plan: Plan,
        source: SourceInfo,
        file: LocalFile,
        container: InputContainer,
        folder: Path,
        limits: Limits,
        stack: ExitStack,
        gpu: Gpu | None = None,
        cipher: Cipher | None = None,
    ) -> None:
        self.file, self.gpu = file, gpu
        self.decode = {decode.stream: decode for decode in plan.decode}
        self.plan, self.source, self.container, self.limits = plan, source, container, limits
        self.warnings = WarningLog(plan.warnings)
        self.span = self._taken()
        self.images = read_images(plan, file, limits)
        read = {rendition.stream for output in plan.outputs for rendition in output.renditions}
        self.texts = Texts(read, source, file, limits, stack)
        self.captions = write_captions(plan, source, file, folder, self.span, limits, stack)
        self.threads: list[Callable[[], None]] = []
        self.packets: dict[int, Channel[Packet[Any]]] = {}
        self.video_tracks: dict[int, TrackState] = {}
        self.channels: list[Channel[Any]] = []
        self.copies: dict[int, list[Follower]] = {}
        self.subtitles: list[Subtitles] = []
        self.copy_clocks: dict[str, CopyClock] = {}
        self.tally = Tally(plan, source.duration_seconds, folder, self.span)
        self.states = self.tally.states
        self.writers = self.tally.writers
        for output in plan.outputs:
            writer = self._open_writer(output, folder, cipher)
            self.writers.append(writer)
            stack.enter_context(writer)
        self._assemble()

    def _taken(self) -> Span:
        return span_of(self.plan.start_seconds, self.plan.end_seconds, self.source.start_seconds)

    def _open_writer(self, output: OutputPlan, folder: Path, cipher: Cipher | None) -> Writer | Package | PictureFolder:
        return open_writer(output, folder, cipher)

    def judge(self, holes: Holes) -> None:
        """Raises what `check_complete` does when the input gave less than it promised."""
        check_complete(self.plan, self.source, self.states, holes, self.warnings)

    def _assemble(self) -> None:
        video_frames: dict[int, list[Channel[Any]]] = {}
        audio_targets: dict[int, list[AudioTarget]] = {}
        for writer in self.writers:
            for number, rendition in enumerate(writer.plan.renditions):
                key = (writer.plan.name, number)
                lane = writer.lane(number)
                if isinstance(lane, PictureFolder):
                    assert isinstance(rendition, PictureRendition)
                    video_frames.setdefault(rendition.stream, []).append(self._add_pictures(key, rendition, lane))
                elif isinstance(rendition, VideoRendition):
                    frames = self._add_video(key, rendition, lane)
                    if frames is not None:
                        video_frames.setdefault(rendition.stream, []).append(frames)
                elif isinstance(rendition, AudioRendition):
                    audio_targets.setdefault(rendition.stream, []).append(self._add_audio(key, rendition, lane))
                elif isinstance(rendition, CopyRendition | SubtitleRendition):
                    self._add_copied(key, rendition, lane)
            writer.start(clipped_chapters(self.source.chapters, self.span, writer.plan.pace))
        for stream, channels in video_frames.items():
            info = self._video_info(stream)
            av_stream: Any = self.container.streams[stream]
            context, watch = self._decoder(info, av_stream)
            step = round(1 / (info.frame_rate or 25) / av_stream.time_base)
            packets = self._channel(stream)
            decoder = VideoDecoder(
                av_stream, self.video_tracks[stream], packets, channels, self.span, self.limits, self.warnings, step,
                slots_only=self.source.format in SLOT_FORMATS, context=context, watch=watch,
                keyframes_only=self.decode[stream].keyframes_only,
            )  # fmt: skip
            if info in self.source.video:  # a cover picture does not last
                self.states.append(decoder.state)
            self.threads.append(decoder)
        for stream, targets in audio_targets.items():
            worker = AudioWorker(
                self.container.streams[stream], self._channel(stream), targets, self.span, self.warnings
            )
            self.states.append(worker.state)
            self.threads.append(worker)

    def _decoder(self, info: VideoInfo, stream: Any) -> tuple[Any, DecodeWatch | None]:
        """What decodes a video track, and who watches it where that is a GPU."""
        decode = self.decode[info.index]
        if self.gpu is None or decode.placement == "software":
            stream.codec_context.thread_type = "AUTO"
            return stream.codec_context, None
        work = decode_work(self.gpu, info)
        return decoder_context(self.gpu, decode, stream), DecodeWatch(work, decode, self.warnings)

    def _tick(self, stream: int) -> Fraction:
        """In which the times of a video track's frames are counted."""
        return self.container.streams[stream].time_base or Fraction(1, 90_000)

    @property
    def streams(self) -> list[int]:
        """The input's streams that are read."""
        return sorted({*self.packets, *self.copies})

    def _channel(self, stream: int) -> Channel[Packet[Any]]:
        channel: Channel[Packet[Any]] = Channel(PACKET_CAPACITY)
        self.packets[stream] = channel
        self.channels.append(channel)
        return channel

    def _add_video(self, key: tuple[str, int], rendition: VideoRendition, writer: Writer) -> Channel[Any] | None:
        """Where its frames are to be put; None: nowhere."""
        info = self._video_info(rendition.stream)
        stream_time_base = self._tick(rendition.stream)
        graph = self._graph(rendition, stream_time_base, info)
        container = _container(writer)
        time_base = encoder_time_base(rendition, graph.time_base, container.time_base_denominator)
        encoder = self._encoder(rendition, writer, time_base)
        frames = self._frames(info)
        track = self._track_state(info)
        worker = VideoWorker(
            rendition, track, frames, graph, encoder, writer, graph.time_base, time_base, self.span,
            durations=container.durations, promised_end=exact_end(self.source, info),
        )  # fmt: skip
        self.tally.encoders[key], self.tally.workers[key] = encoder, worker
        self.threads.append(worker)
        return frames

    def _add_pictures(self, key: tuple[str, int], rendition: PictureRendition, folder: PictureFolder) -> Channel[Any]:
        """Where the frames are to be put that pictures are chosen of."""
        info = self._video_info(rendition.stream)
        time_base = self.container.streams[rendition.stream].time_base or Fraction(1, 90_000)
        frames = self._frames(info)
        worker = PictureWorker(
            rendition, self._track_state(info), frames, self._graph(rendition, time_base, info), folder, time_base,
            self.span, taken_seconds(self.plan, rendition, self.file, self.span, self.limits), self.warnings,
        )  # fmt: skip
        self.tally.pictures[key] = worker
        self.threads.append(worker)
        return frames

    def _video_info(self, stream: int) -> VideoInfo:
        return next(track for track in (*self.source.video, *self.source.pictures) if track.index == stream)

    def _track_state(self, info: VideoInfo) -> TrackState:
        return self.video_tracks.setdefault(info.index, TrackState(info.index, "video"))

    def _frames(self, info: VideoInfo) -> Channel[Any]:
        """A channel for decoded frames of a track."""
        frame_bytes = max(1, info.width * info.height * (3 if info.bit_depth > 8 else 2))
        held = max(3, min(16, FRAME_BUFFER_BYTES // frame_bytes))
        if self.decode[info.index].frames == "hardware":
            held = HELD_FRAMES
        frames: Channel[Any] = Channel(held)
        self.channels.append(frames)
        return frames

    def _graph(self, rendition: VideoRendition | PictureRendition, time_base: Fraction, info: VideoInfo) -> VideoGraph:
        scene = Scene(self.images, self.span.zero, rendition.pace, self.captions)
        places = (self.decode[rendition.stream].frames, rendition.filter_placement, rendition.placement)
        if self.gpu is None or "hardware" not in places:
            return VideoGraph(rendition, time_base, info.sample_aspect_ratio, scene)
        work = decode_work(self.gpu, info, "filter")
        return HardwareGraph(rendition, time_base, info.sample_aspect_ratio, self.gpu, work, scene)

    def _encoder(self, rendition: VideoRendition, writer: Writer, time_base: Fraction) -> VideoEncoder:
        stream = writer.add(rendition, self.container, time_base, self.gpu)
        if self.gpu is None or rendition.placement == "software":
            return VideoEncoder(stream, rendition, time_base)
        on_open = writer.opened if self.gpu.graphs else None
        return HardwareEncoder(stream, rendition, time_base, encode_work(self.gpu, rendition), on_open=on_open)

    def _add_audio(self, key: tuple[str, int], rendition: AudioRendition, writer: Writer) -> AudioTarget:
        priming = _container(writer).signals_priming
        encoder = AudioEncoder(writer.add(rendition, self.container, None), rendition, priming=priming)
        samples = end_in_samples(self.span, rendition.sample_rate)
        graph = AudioGraph(
            rendition, frame_size=encoder.frame_size, end_samples=samples, lead_samples=encoder.lead_samples
        )
        self.tally.encoders[key], self.tally.sounds[key] = encoder, graph
        meter = None
        if any(isinstance(step, Normalise) for step in rendition.filters):
            meter = self.tally.meters[key] = LoudnessMeter()
        return AudioTarget(graph, encoder, writer, meter)

    def _add_copied(self, key: tuple[str, int], rendition: CopyRendition | SubtitleRendition, writer: Writer) -> None:
        is_cover = isinstance(rendition, CopyRendition) and rendition.media == "picture"
        if is_cover and _container(writer).cover_art == "attachment":
            picture = read_cover(self.file, rendition.stream, self.limits)
            writer.attach(rendition.codec, picture)
            self.tally.tracks[key] = Cover(TrackState(rendition.stream, "copy", frames=1, packets=1), len(picture))
            return
        beside = self.texts.container(rendition.stream)
        container = self.container if beside is None else beside
        stream = writer.add(rendition, container, None)
        clock = self._copy_clock(rendition, writer)
        track: CopyTrack | Subtitles
        if isinstance(rendition, SubtitleRendition) or rendition.media == "subtitle":
            about = (stream, writer, clock, self.warnings, not _container(writer).overlapping_cues)
            copied = isinstance(rendition, CopyRendition)
            source = container.streams[rendition.stream]
            track = SubtitleCopy(*about) if copied else SubtitleTrack(*about, source=source)
            self.subtitles.append(track)
            if beside is not None:
                self.texts.follow(rendition.stream, track)
        else:
            track = CopyTrack(
                rendition.stream, stream, writer, clock, rendition.media == "video", self.warnings,
                durations=_container(writer).durations, order=self._picture_order(rendition),
                promised_end=self._promised_end(rendition),
            )  # fmt: skip
            if rendition.media in ("video", "audio"):
                self.states.append(track.state)
        self.tally.tracks[key] = track
        if beside is None:
            self.copies.setdefault(rendition.stream, []).append(track)

    def _promised_end(self, rendition: CopyRendition) -> Fraction | None:
        return exact_end(self.source, self._video_info(rendition.stream)) if rendition.media == "video" else None

    def _picture_order(self, rendition: CopyRendition) -> PictureOrder | None:
        if self.source.format not in UNTIMED_FORMATS or rendition.codec not in UNTIMED_CODECS:
            return None
        info = next((track for track in self.source.video if track.index == rendition.stream and track.decodable), None)
        return None if info is None else PictureOrder(self.container.streams[rendition.stream], info.frame_rate)

    def _copy_clock(self, rendition: CopyRendition | SubtitleRendition, writer: Writer) -> CopyClock:
        """The clock that the copied tracks and subtitles of one output share; a cover picture has none."""
        if isinstance(rendition, CopyRendition) and rendition.media == "picture":
            return CopyClock(Span(Fraction(0), None, clipped=False), at_keyframe=False, warnings=self.warnings)
        video = any(isinstance(r, CopyRendition) and r.media == "video" for r in writer.plan.renditions)
        return self.copy_clocks.setdefault(
            writer.plan.name, CopyClock(self.span, at_keyframe=video, warnings=self.warnings, pace=writer.plan.pace)
        )


def _container(writer: Writer) -> Container:
    return CONTAINERS[writer.plan.container]
