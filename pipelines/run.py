"""`run`: follows a plan. The input is read and decoded once; every track and rendition has a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.container import InputContainer
from av.packet import Packet

from pipelines.channel import Channel, Stopped
from pipelines.completeness import check_complete
from pipelines.containers import CONTAINERS
from pipelines.demux import Demuxer
from pipelines.encode import AudioEncoder, VideoEncoder, encoder_time_base
from pipelines.errors import Cancelled, OutOfMemory, PipelineError
from pipelines.graph import AudioGraph, VideoGraph
from pipelines.input import LocalFile, open_input
from pipelines.limits import Limits
from pipelines.mux import Writer
from pipelines.rendition import AudioRendition, CopyRendition, Plan, RenditionPlan, SubtitleRendition, VideoRendition
from pipelines.result import OutputResult, Progress, RenditionResult, Result
from pipelines.source import Chapter, SourceInfo, VideoInfo
from pipelines.subtitles import SubtitleTrack
from pipelines.timestamps import rescale
from pipelines.warning_log import WarningLog
from pipelines.workers import AudioTarget, AudioWorker, CopyTrack, Span, TrackState, VideoDecoder, VideoWorker

PROGRESS_SECONDS = 0.25
FRAME_BUFFER_BYTES = 64 << 20
"""Decoded frames waiting for one rendition: as many as fit here, 3 to 16."""
PACKET_CAPACITY = 64

OnProgress = Callable[[Progress], None]


def run(
    plan: Plan,
    source: SourceInfo,
    file: LocalFile,
    folder: Path,
    *,
    limits: Limits,
    on_progress: OnProgress | None = None,
    cancelled: threading.Event | None = None,
) -> Result:
    """Writes the plan's outputs into `folder` and says what was written.

    A PipelineError is raised when it can't be done; what `folder` then holds is worthless.
    """
    with ExitStack() as stack:
        container = stack.enter_context(open_input(file, limits))
        job = _Run(plan, source, container, folder, limits, stack)
        job.work(on_progress, cancelled or threading.Event())
        for writer in job.writers:
            writer.close()
        return job.result()


class _Run:
    def __init__(
        self,
        plan: Plan,
        source: SourceInfo,
        container: InputContainer,
        folder: Path,
        limits: Limits,
        stack: ExitStack,
    ) -> None:
        self.plan, self.source, self.container, self.limits = plan, source, container, limits
        self.warnings = WarningLog(plan.warnings)
        self.began = time.monotonic()
        start = Fraction(round(plan.start_seconds * 1_000_000), 1_000_000)
        end = None if plan.end_seconds is None else Fraction(round(plan.end_seconds * 1_000_000), 1_000_000)
        clipped = start > Fraction(round(source.start_seconds * 1_000_000), 1_000_000)
        self.span = Span(start, end, clipped)
        self.threads: list[Callable[[], None]] = []
        self.packets: dict[int, Channel[Packet]] = {}
        self.channels: list[Channel[Any]] = []
        self.copies: dict[int, list[CopyTrack | SubtitleTrack]] = {}
        self.states: list[TrackState] = []
        self.encoders: dict[tuple[str, int], VideoEncoder | AudioEncoder] = {}
        self.tracks: dict[tuple[str, int], CopyTrack | SubtitleTrack] = {}
        self.workers: dict[tuple[str, int], VideoWorker] = {}
        self._failure: BaseException | None = None
        self._failed = threading.Event()
        self.writers = [stack.enter_context(Writer(output, folder)) for output in plan.outputs]
        self._assemble()

    # putting it together

    def _assemble(self) -> None:
        video_frames: dict[int, list[Channel[Any]]] = {}
        audio_targets: dict[int, list[AudioTarget]] = {}
        for writer in self.writers:
            for number, rendition in enumerate(writer.plan.renditions):
                key = (writer.plan.name, number)
                if isinstance(rendition, VideoRendition):
                    video_frames.setdefault(rendition.stream, []).append(self._add_video(key, rendition, writer))
                elif isinstance(rendition, AudioRendition):
                    audio_targets.setdefault(rendition.stream, []).append(self._add_audio(key, rendition, writer))
                else:
                    self._add_copied(key, rendition, writer)
            writer.start(self._chapters())
        for stream, channels in video_frames.items():
            info = next(track for track in self.source.video if track.index == stream)
            av_stream: Any = self.container.streams[stream]
            av_stream.codec_context.thread_type = "AUTO"
            step = round(1 / (info.frame_rate or 25) / av_stream.time_base)
            packets = self._channel(stream)
            decoder = VideoDecoder(av_stream, packets, channels, self.span, self.limits, self.warnings, step)
            self.states.append(decoder.state)
            self.threads.append(decoder)
        for stream, targets in audio_targets.items():
            worker = AudioWorker(
                self.container.streams[stream], self._channel(stream), targets, self.span, self.warnings
            )
            self.states.append(worker.state)
            self.threads.append(worker)

    def _channel(self, stream: int) -> Channel[Packet]:
        channel: Channel[Packet] = Channel(PACKET_CAPACITY)
        self.packets[stream] = channel
        self.channels.append(channel)
        return channel

    def _add_video(self, key: tuple[str, int], rendition: VideoRendition, writer: Writer) -> Channel[Any]:
        info: VideoInfo = next(track for track in self.source.video if track.index == rendition.stream)
        source_time_base = self.container.streams[rendition.stream].time_base or Fraction(1, 90_000)
        denominator = _container(writer).time_base_denominator
        time_base = encoder_time_base(rendition, source_time_base, denominator)
        stream = writer.add(rendition, self.container, time_base)
        encoder = VideoEncoder(stream, rendition, time_base)
        frame_bytes = max(1, info.width * info.height * (3 if info.bit_depth > 8 else 2))
        frames: Channel[Any] = Channel(max(3, min(16, FRAME_BUFFER_BYTES // frame_bytes)))
        self.channels.append(frames)
        graph = VideoGraph(rendition, source_time_base, info.sample_aspect_ratio)
        worker = VideoWorker(rendition, frames, graph, encoder, writer, source_time_base, time_base, self.span)
        self.encoders[key], self.workers[key] = encoder, worker
        self.threads.append(worker)
        return frames

    def _add_audio(self, key: tuple[str, int], rendition: AudioRendition, writer: Writer) -> AudioTarget:
        encoder = AudioEncoder(writer.add(rendition, self.container, None), rendition)
        end = self.span.end
        samples = None if end is None else rescale(1, end - self.span.start, Fraction(1, rendition.sample_rate))
        graph = AudioGraph(rendition, end_samples=samples)
        graph.set_frame_size(encoder.frame_size)
        self.encoders[key] = encoder
        return AudioTarget(graph, encoder, writer)

    def _add_copied(self, key: tuple[str, int], rendition: CopyRendition | SubtitleRendition, writer: Writer) -> None:
        stream = writer.add(rendition, self.container, None)
        track: CopyTrack | SubtitleTrack
        if isinstance(rendition, SubtitleRendition):
            track = SubtitleTrack(
                self.container.streams[rendition.stream].codec_context, stream, writer, self.span, self.warnings
            )
        else:
            picture = rendition.media == "picture"
            span = Span(Fraction(0), None, clipped=False) if picture else self.span
            track = CopyTrack(stream, writer, span, rendition.media == "video", self.warnings)
            if rendition.media in ("video", "audio"):
                self.states.append(track.state)
        self.tracks[key] = track
        self.copies.setdefault(rendition.stream, []).append(track)

    def _chapters(self) -> tuple[Chapter, ...]:
        """The source's chapters on the output's clock."""
        start = float(self.span.start)
        end = float("inf") if self.span.end is None else float(self.span.end) - start
        shifted = (
            chapter.model_copy(
                update={
                    "start_seconds": max(0.0, chapter.start_seconds - start),
                    "end_seconds": min(end, chapter.end_seconds - start),
                }
            )
            for chapter in self.source.chapters
        )
        return tuple(chapter for chapter in shifted if chapter.end_seconds > chapter.start_seconds)

    # doing it

    def work(self, on_progress: OnProgress | None, cancelled: threading.Event) -> None:
        """Runs all threads to their end, reporting progress from this one."""
        streams = sorted({*self.packets, *self.copies})
        demuxer = Demuxer(self.container, streams, self.span, self.source, self.warnings)
        threads = [
            threading.Thread(target=self._guarded, args=(body,), daemon=True, name=type(body).__name__)
            for body in (*self.threads, lambda: self._feed(demuxer))
        ]
        for thread in threads:
            thread.start()
        reported = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            if cancelled.is_set():
                self._fail(Cancelled("cancelled", stage="run"))
            for thread in threads:
                if thread.is_alive():
                    thread.join(PROGRESS_SECONDS / 5)
                    break
            if on_progress is not None and time.monotonic() - reported >= PROGRESS_SECONDS:
                reported = time.monotonic()
                on_progress(self._progress())
        if self._failure is not None:
            raise self._failure
        if on_progress is not None:
            on_progress(self._progress())

    def _guarded(self, body: Callable[[], None]) -> None:
        """The end of a thread: any error stops the others, the first one is raised to the caller."""
        try:
            body()
        except Stopped:
            return
        except MemoryError as error:
            self._fail(OutOfMemory(f"out of memory: {error}", stage="run"))
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._failed.set()
        for channel in self.channels:
            channel.stop()

    def _feed(self, demuxer: Demuxer) -> None:
        """Reads the input and hands each packet to whoever wants it."""
        packets, copies, states = self.packets, self.copies, self.states
        for packet, time_base in demuxer:
            if self._failed.is_set():
                raise Stopped
            stream = packet.stream_index
            targets = copies.get(stream, ())
            channel = packets.get(stream)
            if channel is not None:
                channel.put(packet)
            for target in targets:
                target.write(packet if len(targets) == 1 and channel is None else _same(packet), time_base)
            if self.span.end is not None and states and all(state.done for state in states):
                break
        for channel in packets.values():
            channel.close()

    # saying what was done

    def _progress(self) -> Progress:
        video = [encoder for encoder in self.encoders.values() if isinstance(encoder, VideoEncoder)]
        counted = video or list(self.encoders.values())
        frames = counted[0].frames if counted else sum(state.frames for state in self.states)
        times = [encoder.end_seconds for encoder in counted] or [t.end_seconds for t in self.tracks.values()]
        out_time = max(0.0, min(times, default=0.0))
        wall = max(1e-6, time.monotonic() - self.began)
        expected = self.plan.duration_seconds
        fraction = None if not expected else min(1.0, out_time / expected)
        speed = out_time / wall
        eta = None if fraction is None or speed <= 0 or expected is None else max(0.0, (expected - out_time) / speed)
        return Progress(
            frames=frames,
            out_time=round(out_time, 3),
            fps=round(frames / wall, 2),
            speed=round(speed, 3),
            bytes=sum(writer.bytes for writer in self.writers),
            fraction=fraction,
            eta_seconds=eta,
        )

    def result(self) -> Result:
        check_complete(self.plan, self.source, self.states, self.warnings)
        outputs = []
        for writer in self.writers:
            renditions = tuple(
                self._rendition_result((writer.plan.name, number), rendition)
                for number, rendition in enumerate(writer.plan.renditions)
            )
            ends = [r.duration_seconds for r in renditions if r.kind in ("video", "audio")]
            outputs.append(
                OutputResult(
                    name=writer.plan.name,
                    type=writer.plan.type,
                    path=writer.plan.path,
                    size=writer.path.stat().st_size,
                    duration_seconds=max(ends, default=None),
                    renditions=renditions,
                )
            )
        return Result(
            outputs=tuple(outputs),
            warnings=self.warnings.all(),
            frames_decoded=sum(state.frames for state in self.states if state.kind == "video"),
            source_seconds=self.source.duration_seconds,
            wall_seconds=round(time.monotonic() - self.began, 3),
        )

    def _rendition_result(self, key: tuple[str, int], rendition: RenditionPlan) -> RenditionResult:
        encoder, track = self.encoders.get(key), self.tracks.get(key)
        facts: dict[str, Any] = {}
        if key in self.workers and (constant := self.workers[key].constant) is not None:
            facts = {"dropped": constant.dropped, "repeated": constant.repeated}
        if encoder is not None:
            kind = "video" if isinstance(encoder, VideoEncoder) else "audio"
            frames, packets, size, seconds = encoder.frames, encoder.packets, encoder.bytes, encoder.end_seconds
        else:
            assert track is not None
            kind = rendition.media if isinstance(rendition, CopyRendition) else rendition.kind
            frames, packets, size, seconds = track.state.frames, track.state.packets, track.bytes, track.end_seconds
        return RenditionResult(
            kind=kind,
            codec=rendition.codec,
            encoder=None if isinstance(rendition, CopyRendition) else rendition.encoder,
            frames=frames,
            packets=packets,
            bytes=size,
            duration_seconds=round(seconds, 6),
            facts=facts,
        )


def _container(writer: Writer) -> Any:
    return next(container for container in CONTAINERS.values() if container.muxer == writer.plan.muxer)


def _same(packet: Packet) -> Packet:
    """A packet of its own with the same data and times: each target stamps its own."""
    twin = av.Packet(bytes(packet))
    twin.pts, twin.dts, twin.duration = packet.pts, packet.dts, packet.duration
    twin.time_base = packet.time_base
    twin.is_keyframe = packet.is_keyframe
    return twin


__all__ = ["PipelineError", "run"]
