"""Sources of streams in tests: clips that come over pipes at the pace of a live source, and go wrong on purpose."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av

from pipelines.asked.streams import StreamJob
from pipelines.devices import Device, software_device
from pipelines.limits import Limits
from pipelines.live.link import ConnectFailed, Connection
from pipelines.live.session import Stopping, run_stream
from pipelines.live.stats import LiveStats, StreamResult
from tests.media import make_video

STEP_SECONDS = 0.02
DEVICE = software_device(1)


@dataclass(frozen=True)
class Clip:
    """A transport stream that is sent over `seconds`; then the connection ends, or stays and is silent."""

    data: bytes
    seconds: float
    silent: bool = False


@dataclass
class Feed:
    """A link whose input is one clip after the other; after the last one there is no connection."""

    clips: list[Clip]
    connects: int = 0
    began: float = 0.0
    """When the newest clip began to be sent, by the monotonic clock."""
    outputs: dict[str, Callable[[], Connection]] = field(default_factory=dict)

    def connect(self, name: str, cancelled: threading.Event) -> Connection:
        if name != "input":
            return self.outputs[name]()
        self.connects += 1
        if self.connects > len(self.clips):
            raise ConnectFailed("nobody is there", stage="open")
        reading, writing = os.pipe()
        self.began = time.monotonic()
        threading.Thread(target=_send, args=(self.clips[self.connects - 1], writing), daemon=True).start()
        return Connection(reading, format="mpegts")


def _send(clip: Clip, fd: int) -> None:
    began, sent = time.monotonic(), 0
    try:
        while sent < len(clip.data):
            due = int(len(clip.data) * min(1.0, (time.monotonic() - began + 0.1) / clip.seconds))
            if due > sent:
                sent += os.write(fd, clip.data[sent:due])
            time.sleep(STEP_SECONDS)
        while clip.silent:
            os.write(fd, b"")
            time.sleep(STEP_SECONDS * 5)
    except BrokenPipeError:
        return
    finally:
        os.close(fd)


def clip(folder: Path, name: str = "a", *, seconds: float = 3, silent: bool = False, **how: Any) -> Clip:
    """Small moving pictures with a tone, a keyframe every half second."""
    defaults: dict[str, Any] = {
        "size": (160, 120),
        "gop": 12,
        "options": {"preset": "ultrafast", "tune": "zerolatency"},
    }
    path = make_video(folder / f"{name}.ts", seconds=Fraction(seconds).limit_denominator(100), **{**defaults, **how})
    return Clip(path.read_bytes(), seconds, silent)


def job_of(*outputs: dict[str, Any], source: dict[str, Any] | None = None, **more: Any) -> StreamJob:
    asked = {
        "url": "udp://192.0.2.1:5000",
        "reconnect": {"first_seconds": 0.2, "longest_seconds": 0.2},
        **(source or {}),
    }
    return StreamJob.model_validate({"kind": "stream", "input": asked, "outputs": list(outputs), "force": True, **more})


@dataclass
class Run:
    """A stream that runs in a thread."""

    stopping: Stopping
    stats: list[LiveStats] = field(default_factory=list)
    result: StreamResult | None = None
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def wait_for(self, happened: Callable[[LiveStats], bool], seconds: float = 20) -> LiveStats:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = next((stats for stats in self.stats if happened(stats)), None)
            if found is not None:
                return found
            assert self.thread is not None
            assert self.thread.is_alive() or self.error is None, self.error
            time.sleep(0.02)
        raise AssertionError(f"it did not happen; the last report: {self.stats[-1:]}")

    def end(self, seconds: float = 20) -> StreamResult:
        """Its result, once it has ended by itself."""
        assert self.thread is not None
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def stop(self, reason: Any = "stopped") -> StreamResult:
        self.stopping.request(reason)
        return self.end()


@contextmanager
def running(job: StreamJob, folder: Path, link: Any, device: Device = DEVICE, **how: Any) -> Iterator[Run]:
    run = Run(Stopping())
    folder.mkdir(exist_ok=True)

    def work() -> None:
        try:
            run.result = run_stream(
                job, folder, device, link, limits=Limits(), stopping=run.stopping, on_stats=run.stats.append, **how
            )
        except BaseException as error:  # noqa: BLE001 - raised again in the test
            run.error = error

    run.thread = threading.Thread(target=work, daemon=True)
    run.thread.start()
    try:
        yield run
    finally:
        run.stopping.request("stopped")
        run.thread.join(20)


def played(source: Path | str) -> dict[str, list[tuple[float, float]]]:
    """(pts, dts) in seconds of the packets of the first track of each kind, of a file or a playlist."""
    found: dict[str, list[tuple[float, float]]] = {"video": [], "audio": []}
    with av.open(str(source)) as container:
        firsts = [streams[0] for streams in (container.streams.video, container.streams.audio) if streams]
        for packet in container.demux(firsts):
            if packet.size and packet.pts is not None and packet.dts is not None:
                base = packet.time_base
                found[packet.stream.type].append((float(packet.pts * base), float(packet.dts * base)))
    return found


def is_rising(times: list[float]) -> bool:
    return all(before < after for before, after in pairwise(times))
