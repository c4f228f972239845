"""Sending on: to RTMP and RTSP servers, and as a transport stream. A server that goes away is connected to anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import av

from pipelines.errors import PipelineError
from pipelines.live.backoff import Backoff
from pipelines.live.link import HOST, Bridge, ByteWriter, Connection, Link, Passage
from pipelines.live.remux import Mux
from pipelines.live.sink import Queued
from pipelines.live.units import Piece, Track
from pipelines.stream_spec import PushOutput

SEND_SECONDS = 10.0
"""How long a server may take nothing."""
START_SECONDS = 2.0
"""How long tracks are waited for that have not shown themselves yet."""
OPTIONS: dict[str, dict[str, str]] = {
    "flv": {"flvflags": "no_duration_filesize+no_metadata+no_sequence_end"},
    "rtp": {"rtsp_transport": "tcp"},
    "ts": {"flush_packets": "1"},
}


class Pusher(Queued):
    """Waits for its tracks and a keyframe, connects, sends; begins again when that fails, as its policy allows."""

    def __init__(
        self, output: PushOutput, tracks: Iterable[str], leader: str, link: Link, bridge: Callable[[], Bridge]
    ) -> None:
        super().__init__(str(output.name), output.type, frozenset(tracks), leader)
        self._output, self._link, self._bridge = output, link, bridge
        self._known: dict[str, Track] = {}
        self._first: float | None = None
        self._cancelled = threading.Event()
        self._sending: _Sending | None = None
        self._backoff = Backoff(output.reconnect)

    def take(self, piece: Piece) -> None:
        name = piece.track.name
        changed = self._known.get(name) not in (None, piece.track)
        self._known[name] = piece.track
        self._first = time.monotonic() if self._first is None else self._first
        if changed and self._sending is not None:
            self._leave()
        if self._sending is None and not self._begin(piece):
            return
        assert self._sending is not None
        try:
            self._sending.write(piece)
        except (OSError, ValueError, av.error.FFmpegError) as error:
            self._lost(str(getattr(error, "strerror", None) or error))
            return
        self.standing.bytes += len(piece.unit.data)
        if piece.unit.key and piece.track.name == self._leader:
            self._backoff.succeeded()

    def end(self) -> None:
        self._leave()

    def finish(self) -> None:
        super().finish()
        if self._sending is None:
            self._cancelled.set()

    def join(self, seconds: float) -> bool:
        ended = super().join(seconds)
        if not ended:
            # a server that takes nothing shall not hold up the end
            self._cancelled.set()
            if (sending := self._sending) is not None:
                sending.end()
            ended = super().join(1.0)
        return ended

    def _begin(self, piece: Piece) -> bool:
        """Connects, when it is time and the piece is one to begin with."""
        leads = piece.track.name == self._leader and piece.unit.key
        complete = self.tracks <= self._known.keys()
        waited = time.monotonic() - (self._first or 0.0)
        if not leads or not (complete or waited > START_SECONDS) or not self._backoff.is_due():
            self.standing.dropped += self._backoff.attempts > 0
            return False
        tracks = [self._known[name] for name in sorted(self._known, key=lambda name: name != self._leader)]
        try:
            connection = self._link.connect(self.standing.name, self._cancelled)
            self._sending = _Sending(connection, self._output.container, tracks, piece, self._bridge)
        except PipelineError as error:
            self._lost(error.message, final=not error.retryable)
            return False
        except (OSError, ValueError, av.error.FFmpegError) as error:
            self._lost(f"the server refused the stream: {getattr(error, 'strerror', None) or error}")
            return False
        self.standing.state, self.standing.error = "live", None
        return True

    def _lost(self, message: str, *, final: bool = False) -> None:
        self._leave()
        self.standing.failures += 1
        self.standing.error = message
        self.standing.state = "retrying"
        if final or self._output.on_failure == "drop" or not self._backoff.failed():
            self.standing.state = "failed"
            with self._changed:
                self._shed()

    def _leave(self) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.close()


class _Sending:
    """One connection to a server."""

    def __init__(
        self, connection: Connection, container: str, tracks: list[Track], first: Piece, bridge: Callable[[], Bridge]
    ) -> None:
        self._connection = connection
        self._passage: Passage | None = None
        self._writer: ByteWriter | None = None
        start = first.time
        try:
            if connection.kind == "bytes":
                self._writer = ByteWriter(connection, SEND_SECONDS)
                self._mux = Mux(self._writer, container, tracks, options=OPTIONS[container], start=start)
                self._mux.open()
            else:
                self._mux = self._bridged(connection, container, tracks, first, bridge())
        except BaseException:
            self.end()
            connection.close()
            raise

    def _bridged(
        self, connection: Connection, container: str, tracks: list[Track], first: Piece, bridge: Bridge
    ) -> Mux:
        with bridge.lock:
            self._passage = bridge.await_caller(connection, SEND_SECONDS, _uncounted, only_sends=True)
            url = connection.url.replace(HOST, bridge.address)
            options = {**OPTIONS[container], **(connection.options or {})}
            mux: Any = Mux(url, container, tracks, options=options, start=first.time)
            mux.open()
            return mux  # type: ignore[no-any-return]

    def write(self, piece: Piece) -> None:
        self._mux.write(piece)

    def end(self) -> None:
        """Makes what waits for the server fail; from any thread."""
        if self._passage is not None:
            self._passage.end()
        if self._writer is not None:
            self._writer.end()

    def close(self) -> None:
        try:
            self._mux.close()
        except (OSError, ValueError, av.error.FFmpegError):
            pass  # the server has gone before it was told of the end
        finally:
            self.end()
            if self._passage is not None:
                self._passage.join()
            self._connection.close()


def _uncounted(size: int) -> None:
    """What servers answer is not media."""
