"""Sending on: FLV for servers of RTMP, RTP for those of RTSP, and transport streams. Servers may go and come back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from fractions import Fraction

import av

from pipelines.asked.streams import PushOutput
from pipelines.errors import PipelineError
from pipelines.live.backoff import Backoff
from pipelines.live.link import ByteWriter, Connection, Link
from pipelines.live.remux import Mux
from pipelines.live.rtp import RtpMux, description
from pipelines.live.sink import Queued
from pipelines.live.units import Piece, Track

SEND_SECONDS = 10.0
"""How long a server may take nothing."""
START_SECONDS = 2.0
"""How long tracks are waited for that have not shown themselves yet."""
OPTIONS: dict[str, dict[str, str]] = {
    "flv": {"flvflags": "no_duration_filesize+no_metadata+no_sequence_end"},
    "ts": {"flush_packets": "1"},
}


class Pusher(Queued):
    """Waits for its tracks and a keyframe, connects, sends; begins again when that fails, as its policy allows."""

    prompt = True

    def __init__(self, output: PushOutput, tracks: Iterable[str], leader: str, link: Link) -> None:
        super().__init__(str(output.name), output.type, frozenset(tracks), leader)
        self._output, self._link = output, link
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
            connection = self._connect(tracks)
            self._sending = _Sending(connection, self._output.container, tracks, piece)
        except PipelineError as error:
            self._lost(error.message, final=not error.retryable)
            return False
        except (OSError, ValueError, av.error.FFmpegError) as error:
            self._lost(f"the server refused the stream: {getattr(error, 'strerror', None) or error}")
            return False
        self.standing.state, self.standing.error = "live", None
        return True

    def _connect(self, tracks: list[Track]) -> Connection:
        if self._output.container == "rtp":
            return self._link.connect(self.standing.name, self._cancelled, description(tracks))
        return self._link.connect(self.standing.name, self._cancelled)

    def _lost(self, message: str, *, final: bool = False) -> None:
        if self._sending is not None:
            # one that takes nothing is not waited for a second time
            self._sending.end()
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


def _mux(writer: ByteWriter, container: str, tracks: list[Track], start: Fraction) -> Mux | RtpMux:
    if container == "rtp":
        return RtpMux(writer, tracks, start)
    return Mux(writer, container, tracks, options=OPTIONS[container], start=start)


class _Sending:
    """One connection to a server."""

    def __init__(self, connection: Connection, container: str, tracks: list[Track], first: Piece) -> None:
        self._connection = connection
        self._writer = ByteWriter(connection, SEND_SECONDS)
        try:
            self._mux = _mux(self._writer, container, tracks, first.time)
            self._mux.open()
        except BaseException:
            connection.close()
            raise

    def write(self, piece: Piece) -> None:
        self._mux.write(piece)

    def end(self) -> None:
        """Makes what waits for the server fail; from any thread."""
        self._writer.end()

    def close(self) -> None:
        try:
            self._mux.close()
        except (OSError, ValueError, av.error.FFmpegError):
            pass  # the server has gone before it was told of the end
        finally:
            self.end()
            self._connection.close()
