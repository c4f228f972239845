"""Everything behind the connection: decoders, encoders and sinks of a plan, and the threads that they run in."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from pipelines.asked.streams import Slate
from pipelines.hardware.gpu import Gpu
from pipelines.limits import Limits
from pipelines.live.audio_lane import AudioLane
from pipelines.live.clock import OutputClock
from pipelines.live.decoding import AudioDecoder, Source, VideoDecoder
from pipelines.live.encoding import in_software, lane_encoder
from pipelines.live.fanout import Fanout
from pipelines.live.gpu import gpu_decoder, lane_graph
from pipelines.live.homes import CopyHome, EncoderHome, same_parameters
from pipelines.live.outputs import Outlets
from pipelines.live.planning import LivePlan
from pipelines.live.receiving import CopyLane, Reception
from pipelines.live.sink import Queued
from pipelines.live.slate import SlateShow
from pipelines.live.units import Track
from pipelines.live.video_lane import VideoLane
from pipelines.planning.choice import main_video
from pipelines.source import SourceInfo
from pipelines.timestamps import PresentationOrder

DRAIN_SECONDS = 2.0
FINISH_SECONDS = 8.0
"""That all outputs together have for their end."""


class Working(Protocol):
    """What has a thread."""

    def start(self) -> None: ...

    def finish(self) -> None: ...

    def join(self, seconds: float) -> bool: ...


class Pipeline:
    """Made for the first connection's source; `receive` takes one connection after the other."""

    def __init__(
        self, plan: LivePlan, source: SourceInfo, clock: OutputClock, outlets: Outlets, limits: Limits,
        slate: Slate | None, failed: Callable[[BaseException], None], gpu: Gpu | None = None,
    ) -> None:  # fmt: skip
        self.plan, self.clock = plan, clock
        self.fanout = Fanout(clock)
        self._gpu = gpu
        self.home = EncoderHome(in_software(plan.video), plan.audio)
        self._copy_homes: list[CopyHome] = []
        video = main_video(source.video)
        self.lanes = [
            VideoLane(
                name, rendition, lane_encoder(name, rendition, self.home, gpu),
                lane_graph(rendition, gpu, plan.decode, video), self.fanout.put, failed,
            )
            for name, rendition in plan.video.items()
        ]  # fmt: skip
        sounds = [
            AudioLane(rendition, *self.home.audio(name), self.fanout.put) for name, rendition in plan.audio.items()
        ]
        self.snapshots = [outlets.snapshots(output) for output in plan.snapshots]
        self.video = VideoDecoder(self.lanes, self.snapshots, limits, failed)
        self.audio = AudioDecoder(sounds, lambda: self.video.reached, failed)
        self.copies = {name: CopyLane(self.fanout.put) for name in plan.copies}
        self.sinks: list[Queued] = [outlets.sink(feed) for feed in plan.feeds]
        self.fanout.connect(self.sinks)
        self.slate = None
        if slate is not None and video is not None and plan.video:
            self.slate = SlateShow(slate, video, self.video, clock)
        self._threads: tuple[Working, ...] = (*self.sinks, *self.snapshots, *self.lanes, self.video, self.audio)
        self._frame_rate = (video.frame_rate if video is not None else None) or Fraction(25)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()
        if self.slate is not None:
            self.slate.start()

    def receive(self, reception: Reception, *, again: bool) -> None:
        """Takes a connection's packets until it ends. `again`: it is not the first one."""
        self._connect_copies(reception, again=again)
        decoders: dict[Any, tuple[VideoDecoder | AudioDecoder, Source]] = {}
        if reception.video is not None and self.plan.decodes_video:
            decoders[reception.video] = (self.video, self._seen(reception))
        if reception.audio is not None and self.plan.audio:
            decoders[reception.audio] = (self.audio, self._source(reception.audio))
        copies = {
            stream: [self.copies[name] for name, copy in self.plan.copies.items() if copy.kind == stream.type]
            for stream in (reception.video, reception.audio)
            if stream is not None
        }
        try:
            for stream, packet in reception:
                for lane in copies.get(stream, ()):
                    if lane.track is not None:
                        lane.take(packet)
                if stream in decoders:
                    decoder, source = decoders[stream]
                    decoder.put(source, packet)
        finally:
            for decoder, source in decoders.values():
                decoder.drain(source, DRAIN_SECONDS)

    def _seen(self, reception: Reception) -> Source:
        """What decodes the pictures, on the GPU where that can decode those of this connection. A DeviceError."""
        stream, info = reception.video, reception.video_info
        source = self._source(stream)
        if self._gpu is not None and info is not None:
            decode = self.plan.decoding(info)
            if decode.placement == "hardware":
                source.context, source.watch = gpu_decoder(self._gpu, decode, info, stream)
                return source
        source.context.thread_type = "AUTO"
        return source

    def _source(self, stream: Any) -> Source:
        step = round(1 / self._frame_rate / stream.time_base)
        return Source(stream.codec_context, stream.time_base, PresentationOrder(step))

    def busy_since(self) -> float | None:
        """Since when the GPU's longest work has lasted, by the monotonic clock; None: nothing is worked on there."""
        if self._gpu is None:
            return None
        since = [worker.working_since for worker in (*self.lanes, self.video)]
        return min((moment for moment in since if moment is not None), default=None)

    def _connect_copies(self, reception: Reception, *, again: bool) -> None:
        if not self.copies:
            return
        home = CopyHome()
        used = False
        for name, copy in self.plan.copies.items():
            stream = reception.video if copy.kind == "video" else reception.audio
            if stream is None:
                continue
            made: Track = home.track(name, stream)
            before = self.copies[name].track
            same = before is not None and same_parameters(before, made)
            used = used or not same
            self.copies[name].connect(before if same and before is not None else made, fresh=again)
        if used:
            self._copy_homes.append(home)
        else:
            home.close()

    def finish(self, *, final: bool) -> list[str]:
        """Ends in order, from the decoders to the sinks; the names of outputs that did not end in time.

        `final`: nothing will follow; else playlists stay open for what comes after a restart.
        """
        deadline = time.monotonic() + FINISH_SECONDS
        if self.slate is not None:
            self.slate.stop()
        for sink in self.sinks:
            sink.final = final
        stages: tuple[tuple[Working, ...], ...] = (
            (self.video, self.audio),
            tuple(self.lanes),
            (*self.sinks, *self.snapshots),
        )
        for stage in stages:
            for thread in stage:
                thread.finish()
            for thread in stage:
                thread.join(max(0.1, deadline - time.monotonic()))
        return [sink.standing.name for sink in self.sinks if not sink.join(0)]
