"""A run that joins its inputs: one after another is decoded into the filters and encoders of the first one's plan.

Each input begins where the one before it ended: with its last picture, or with its sound where that is longer by more
than a picture. What a track lacks until then is silence, or the last picture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import Any

from av.audio.frame import AudioFrame
from av.packet import Packet
from av.video.frame import VideoFrame

from pipelines.assembly import PACKET_CAPACITY, Assembly
from pipelines.channel import Channel, Stopped
from pipelines.completeness import check_complete
from pipelines.concat.values import TICK, Part, Reel
from pipelines.demux import Demuxer
from pipelines.errors import PipelineError
from pipelines.facts.samples import SLOT_FORMATS
from pipelines.graph import Origin
from pipelines.metadata import clipped_chapters
from pipelines.opening.input import open_input
from pipelines.pictures.folder import PictureFolder
from pipelines.rendition import AudioRendition, VideoRendition
from pipelines.sound.finish import cut
from pipelines.sound.worker import AudioTarget, AudioWorker
from pipelines.timestamps import nearest, rescale
from pipelines.tracks import Holes, Span, TrackState, span_of
from pipelines.video.worker import VideoDecoder


class JoiningAssembly(Assembly):
    """An assembly whose pictures and sound come from several inputs in turn."""

    def __init__(self, reels: Sequence[Reel], *collaborators: Any) -> None:
        self._reels = reels
        self.frames: list[Channel[VideoFrame]] = []
        self.targets: dict[int, list[AudioTarget]] = {}
        super().__init__(*collaborators)

    def _assemble(self) -> None:
        for writer in self.writers:
            for number, rendition in enumerate(writer.plan.renditions):
                key, lane = (writer.plan.name, number), writer.lane(number)
                assert not isinstance(lane, PictureFolder)
                if isinstance(rendition, VideoRendition):
                    frames = self._add_video(key, rendition, lane)
                    assert frames is not None
                    self.frames.append(frames)
                elif isinstance(rendition, AudioRendition):
                    target = self._add_audio(key, rendition, lane)
                    self.targets.setdefault(rendition.stream, []).append(target)
            writer.start(clipped_chapters(self.source.chapters, self.span, writer.plan.pace))
        self.threads.append(_Sequence(self, self._reels))

    def _tick(self, stream: int) -> Fraction:
        return TICK

    @property
    def streams(self) -> list[int]:
        """None: the inputs are read by the sequence."""
        return []

    def judge(self, holes: Holes) -> None:
        """Each input was judged at its own end."""


class _Sequence:
    """The thread that plays one input after another."""

    def __init__(self, parts: JoiningAssembly, reels: Sequence[Reel]) -> None:
        self._parts, self._reels = parts, reels

    def __call__(self) -> None:
        at = Fraction(0)
        for number, reel in enumerate(self._reels, 1):
            try:
                at += self._play(number, reel, at)
            except PipelineError as error:
                error.message = f"input {number}: {error.message}"
                error.facts["input"] = number
                raise
        for channel in self._parts.frames:
            channel.close()
        for targets in self._parts.targets.values():
            for target in targets:
                AudioWorker.encode(target, target.graph.until(at))
                AudioWorker.encode(target, target.graph.flush())
                target.writer.write(target.encoder.flush())

    def _play(self, number: int, reel: Reel, at: Fraction) -> Fraction:
        """Decodes a part that begins at `at` of the output; its length."""
        parts, part, source = self._parts, reel.part, reel.source
        span = span_of(part.start_seconds, part.end_seconds, source.start_seconds)
        with ExitStack() as stack:
            container = stack.enter_context(open_input(reel.file, parts.limits))
            channels: dict[int, Channel[Packet[Any]]] = {}
            bodies: list[Callable[[], None]] = []
            states: list[TrackState] = []
            step = Fraction(0)
            if part.video is not None:
                info = next(track for track in source.video if track.index == part.video)
                step = 1 / (info.frame_rate or Fraction(25))
                stream: Any = container.streams[part.video]
                stream.codec_context.thread_type = "AUTO"
                state = TrackState(part.video, "video")
                decoder = _Pictures(
                    stream, state, self._channel(channels, part.video), parts.frames, span, parts.limits,
                    parts.warnings, round(step / stream.time_base), slots_only=source.format in SLOT_FORMATS,
                )  # fmt: skip
                decoder.at, decoder.origin = at, Origin(number, part.fields, part.sample_aspect_ratio)
                bodies.append(decoder)
                states.append(state)
            for own in dict.fromkeys(own for _, own in part.audio if own is not None):
                targets = [t for track, from_ in part.audio if from_ == own for t in parts.targets.get(track, ())]
                worker = _Sounds(container.streams[own], self._channel(channels, own), targets, span, parts.warnings)
                worker.at = at
                bodies.append(worker)
                states.append(worker.state)
            parts.states.extend(states)
            demuxer = Demuxer(container, sorted(channels), span, source, parts.limits, parts.warnings)
            _together(bodies, channels, demuxer, states)
            own_plan = parts.plan.model_copy(
                update={
                    "start_seconds": part.start_seconds,
                    "end_seconds": part.end_seconds,
                    "duration_seconds": part.duration_seconds,
                }
            )
            check_complete(own_plan, source, states, demuxer.holes, parts.warnings)
            return _length(part, states, span, step)

    def _channel(self, channels: dict[int, Channel[Packet[Any]]], stream: int) -> Channel[Packet[Any]]:
        made: Channel[Packet[Any]] = Channel(PACKET_CAPACITY)
        channels[stream] = made
        self._parts.channels.append(made)
        return made


def _length(part: Part, states: Sequence[TrackState], span: Span, step: Fraction) -> Fraction:
    ends = {state.kind: state.end for state in states if state.end is not None}
    if span.end is not None and any(state.done for state in states):
        return span.end - span.start
    last = max(ends.values(), default=span.start)
    if "video" in ends and last - ends["video"] <= step:
        last = ends["video"]
    if span.end is not None:
        last = min(last, span.end)
    return max(last - span.start, Fraction(0))


def _together(
    bodies: Sequence[Callable[[], None]],
    channels: dict[int, Channel[Packet[Any]]],
    demuxer: Demuxer,
    states: Sequence[TrackState],
) -> None:
    """Reads an input for the decoders in `bodies`, each in a thread of its own; raises the first failure of one."""
    failures: list[BaseException] = []

    def stop() -> None:
        for channel in channels.values():
            channel.stop()

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            failures.append(error)
            stop()

    threads = [threading.Thread(target=guarded, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    try:
        for packet, _ in demuxer:
            channels[packet.stream_index].put(packet)
            if all(state.done for state in states):
                break
        for channel in channels.values():
            channel.close()
    except Stopped:
        stop()
        if not failures:
            failures.append(Stopped())
    except BaseException:
        stop()
        raise
    finally:
        for thread in threads:
            thread.join()
    real = [failure for failure in failures if not isinstance(failure, Stopped)]
    if failures:
        raise (real or failures)[0]


class _Pictures(VideoDecoder):
    """A decoder whose pictures are at their place in the output, and whose channels stay open for the next."""

    at: Fraction
    origin: Origin

    def _end(self) -> None:
        """The next input goes on with the same channels."""

    def _put(self, frame: VideoFrame, pts: int) -> None:
        duration = frame.duration * self._time_base
        time = max(pts * self._time_base - self._span.start, Fraction(0)) + self.at
        frame.pts, frame.time_base = nearest(time / TICK), TICK
        frame.duration = nearest(duration / TICK)
        frame.opaque = replace(self.origin, aspect=frame.opaque) if isinstance(frame.opaque, Fraction) else self.origin
        super()._put(frame, pts)


class _Sounds(AudioWorker):
    """A decoder whose sound is at its place in the output, cut to what is taken of its input."""

    at: Fraction

    def _pass_on(self, frame: AudioFrame) -> None:
        assert frame.pts is not None
        tick = Fraction(1, frame.sample_rate)
        skip = max(0, -frame.pts)
        end = self._span.end
        most = frame.samples if end is None else rescale(1, end - self._span.start, tick) - max(frame.pts, 0)
        if skip or most < frame.samples - skip:
            shorter = cut(frame, skip=skip, samples=most)
            if shorter is None:
                return
            frame = shorter
        assert frame.pts is not None
        frame.pts += rescale(1, self.at, tick) if self.at else 0
        super()._pass_on(frame)

    def _finish(self) -> None:
        for target in self._targets:
            self.encode(target, target.graph.joint())
