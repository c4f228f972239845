"""Opening what comes in: by the connection's kind and the first bytes, never by what a URL says of itself."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import av
from av.container import InputContainer

from pipelines.errors import BadInput, LimitExceeded
from pipelines.limits import Limits
from pipelines.live.link import (
    HOST,
    INPUT,
    INPUT_IN_DATAGRAMS,
    Bridge,
    ByteReader,
    ConnectFailed,
    Connection,
    Link,
    SourceStalled,
    TransportRefused,
)
from pipelines.opening.input import check_pixels, decoder_options

_SNIFFED_BYTES = 4 * 188
_ANALYSED_MICROSECONDS = 3_000_000
_PROBE_BYTES = 2_000_000
_REFUSED = {
    INPUT: "the server sends nothing over TCP",
    INPUT_IN_DATAGRAMS: (
        "the server takes no transport that is spoken here: RTP over its TCP connection, or, of rtsp, in datagrams; "
        "encrypted packets (SRTP) are not read"
    ),
}
"""By the way that was asked for; the second comes after the first."""
_OPEN_PATIENCE_SECONDS = 3600.0
"""PyAV's own time-outs only count while FFmpeg asks; what ends an open in time is the end of its connection."""


def _is_ts(head: bytes) -> bool:
    """Whether it has the sync byte a packet apart, from some packet's start on."""
    return any(head[at : at + 1] == b"G" and head[at + 188 : at + 189] in (b"G", b"") for at in range(188))


SIGNATURES: tuple[tuple[str, Callable[[bytes], bool]], ...] = (
    ("flv", lambda head: head[:3] == b"FLV"),
    ("mov", lambda head: head[4:8] in (b"ftyp", b"styp", b"moof", b"moov")),
    ("matroska", lambda head: head[:4] == b"\x1a\x45\xdf\xa3"),
    ("ogg", lambda head: head[:4] == b"OggS"),
    ("mpegts", _is_ts),
    ("mp3", lambda head: head[:3] == b"ID3" or (head[:1] == b"\xff" and head[1:2] in (b"\xfb", b"\xfa", b"\xf3"))),
    ("aac", lambda head: head[:1] == b"\xff" and head[1:2] in (b"\xf1", b"\xf9")),
)
"""FFmpeg's demuxers by the first bytes, in this order."""

PROTOCOLS = {
    "rtsp": ("rtsp", "rtsp,tcp,rtp", {"rtsp_transport": "tcp"}),
    "rtmp": ("flv", "rtmp,tcp", {}),
}
"""Demuxer, protocols that it may use, options."""


class Opened:
    """An input that is open. `end` makes whatever reads it come to its end, from any thread."""

    def __init__(
        self, container: InputContainer, ending: Callable[[], None], silent: Callable[[], bool], *, paced: bool
    ) -> None:
        self.container, self.paced = container, paced
        self.end = ending
        self._silent = silent

    @property
    def silent(self) -> bool:
        """It ended because no byte came for too long."""
        return self._silent()


class Opener:
    """Opens connections as inputs; one at a time is open."""

    def __init__(
        self, link: Link, bridge: Callable[[], Bridge], limits: Limits, on_bytes: Callable[[int], None]
    ) -> None:
        self._link, self._bridge, self._limits, self._on_bytes = link, bridge, limits, on_bytes
        self._way = INPUT

    @contextmanager
    def open(self, connect_seconds: float, read_seconds: float, cancelled: threading.Event) -> Iterator[Opened]:
        """ConnectFailed, SourceStalled, BadInput, LimitExceeded; and what the link says of the address."""
        connection = self._link.connect(self._way, cancelled)
        try:
            if connection.kind == "bytes":
                yield from self._bytes(connection, connect_seconds, read_seconds, cancelled)
            else:
                yield from self._bridged(connection, connect_seconds, read_seconds, cancelled)
        finally:
            connection.close()

    def _bytes(
        self, connection: Connection, connect: float, read: float, cancelled: threading.Event
    ) -> Iterator[Opened]:
        reader = ByteReader(connection, read, self._on_bytes)
        with _within(connect, cancelled, reader.end):
            form = connection.format or _sniffed(reader)
            options = {"format_whitelist": form, "protocol_whitelist": ""}
            container = self._open(reader, form, options, lambda: reader.silent)
        with container:
            try:
                yield Opened(container, reader.end, lambda: reader.silent, paced=connection.paced)
            finally:
                reader.end()

    def _bridged(
        self, connection: Connection, connect: float, read: float, cancelled: threading.Event
    ) -> Iterator[Opened]:
        form, protocols, options = PROTOCOLS[connection.kind]
        bridge = self._bridge()
        with bridge.lock:
            passage = bridge.await_caller(connection, read, self._on_bytes)
            try:
                with _within(connect, cancelled, passage.end):
                    url = connection.url.replace(HOST, bridge.address)
                    asked = {"protocol_whitelist": protocols, **options, **(connection.options or {})}
                    container = self._open(url, form, asked, lambda: passage.silent)
            except TransportRefused:
                self._way = INPUT_IN_DATAGRAMS
                passage.end()
                raise
            except BaseException:
                passage.end()
                raise
        with container:
            try:
                yield Opened(container, passage.end, lambda: passage.silent, paced=False)
            finally:
                passage.end()
                passage.join()

    def _open(self, file: Any, form: str, options: dict[str, str], silent: Callable[[], bool]) -> InputContainer:
        patience = {"probesize": str(_PROBE_BYTES), "analyzeduration": str(_ANALYSED_MICROSECONDS)}
        bounds = {"max_streams": str(self._limits.max_streams), **decoder_options(self._limits)}
        try:
            container: InputContainer = av.open(
                file, "r", format=form, options={**patience, **bounds, **options}, metadata_errors="replace"
            )  # fmt: skip
        except av.error.FFmpegError as error:
            if silent():
                raise SourceStalled("the source sent nothing while it was opened", stage="open") from error
            if form == "rtsp" and error.errno == errno.EPROTONOSUPPORT:
                raise TransportRefused(_REFUSED[self._way], stage="open") from None
            # FFmpeg's words may name the URL, and with it its password
            raise ConnectFailed(f"the source could not be opened as {form}: {error.strerror}", stage="open") from None
        try:
            self._check(container)
        except BaseException:
            container.close()
            raise
        return container

    def _check(self, container: InputContainer) -> None:
        if len(container.streams) > self._limits.max_streams:
            raise LimitExceeded(
                "limit_streams", "the source has too many tracks", stage="open", limit=self._limits.max_streams
            )
        for stream in container.streams.video:
            if stream.codec_context is not None:
                check_pixels(stream.codec_context.width, stream.codec_context.height, self._limits)
                stream.codec_context.options = decoder_options(self._limits)


def _sniffed(reader: ByteReader) -> str:
    head = reader.peek(_SNIFFED_BYTES)
    if not head:
        if reader.silent:
            raise SourceStalled("the source sent nothing", stage="open")
        raise ConnectFailed("the source ended before its first byte", stage="open")
    found = next((form for form, matches in SIGNATURES if matches(head)), None)
    if found is None:
        raise BadInput("what the source sends is no stream that is known here", stage="open")
    return found


@contextmanager
def _within(seconds: float, cancelled: threading.Event, end: Callable[[], None]) -> Iterator[None]:
    """Calls `end` when the block takes longer, or once it is cancelled."""
    done = threading.Event()

    def watch() -> None:
        left = seconds
        while left > 0 and not done.is_set() and not cancelled.is_set():
            done.wait(min(0.1, left))
            left -= 0.1
        if not done.is_set():
            end()

    watcher = threading.Thread(target=watch, name="connect", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
