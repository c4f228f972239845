"""Units into containers: whole segments in memory, files, and what is sent on as it comes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import av
from av.container import OutputContainer
from av.packet import Packet

from pipelines.errors import OutputFailed
from pipelines.live.units import Piece, Track

FRAGMENT_FLAGS = "+delay_moov+frag_discont+default_base_moof+skip_trailer+frag_custom"
"""One fragment whose times are those of its packets; the header is written when the first packet is known."""

SEGMENT_OPTIONS: dict[str, dict[str, str]] = {
    "fmp4": {"movflags": FRAGMENT_FLAGS, "use_editlist": "0", "avoid_negative_ts": "disabled"},
    "ts": {"mpegts_copyts": "1", "avoid_negative_ts": "disabled", "pat_period": "3600", "sdt_period": "3600"},
}
MUXERS = {"fmp4": "mp4", "ts": "mpegts", "mp4": "mp4", "mkv": "matroska", "flv": "flv", "rtp": "rtp"}

_PACKET_BYTES, _SYNC = 188, 0x47


class Mux:
    """A muxer that takes pieces. Tracks are known from the start; errors are OutputFailed or an OSError."""

    def __init__(
        self,
        target: Any,
        container: str,
        tracks: Sequence[Track],
        *,
        options: dict[str, str] | None = None,
        start: Fraction = Fraction(0),
    ) -> None:
        """`start`: the moment of the output's clock that is written as 0."""
        self._container: OutputContainer = av.open(target, "w", format=MUXERS[container], options=options or {})
        self._start = start
        self._streams: dict[str, Any] = {}
        try:
            for track in tracks:
                self._streams[track.name] = self._add(track)
        except BaseException:
            self._container.close()
            raise

    def _add(self, track: Track) -> Any:
        try:
            stream: Any = self._container.add_stream_from_template(track.template, opaque=True)
        except ValueError as error:
            name = self._container.format.name
            raise OutputFailed(f"{name} does not take {track.codec}", stage="mux", codec=track.codec) from error
        stream.time_base = track.time_base
        if track.copied and track.codec == "aac" and track.extradata:
            # the source's packets said it, each in its header; it is not in the template
            stream.codec_context.extradata = track.extradata
        if track.codec_tag is not None and self._container.format.name in ("mp4", "mov"):
            stream.codec_context.codec_tag = track.codec_tag
        return stream

    def write(self, piece: Piece) -> None:
        unit, base = piece.unit, piece.track.time_base
        shift = round(self._start / base)
        packet: Packet[Any] = Packet(unit.data)
        packet.pts, packet.dts, packet.duration = unit.pts - shift, unit.dts - shift, unit.duration
        packet.time_base = base
        packet.is_keyframe = unit.key
        packet.stream = self._streams[piece.track.name]
        self._container.mux_one(packet)

    def open(self) -> None:
        """Writes the header, which connects where the target is a server."""
        self._container.start_encoding()

    def close(self) -> None:
        self._container.close()


def segment(container: str, tracks: Sequence[Track], pieces: Iterable[Piece], number: int) -> bytes:
    """A segment as bytes. fMP4 has its header in front (`split_header`)."""
    target = io.BytesIO()
    options = dict(SEGMENT_OPTIONS[container])
    if container == "fmp4":
        options["fragment_index"] = str(number + 1)
    mux = Mux(target, container, tracks, options=options)
    try:
        for piece in sorted(pieces, key=lambda each: each.time):
            mux.write(piece)
    finally:
        mux.close()
    return target.getvalue()


def split_header(data: bytes) -> tuple[bytes, bytes]:
    """An fMP4 segment's header (up to and with `moov`) and the rest."""
    at = 0
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if kind == b"moof" or size < 8:
            break
        at += size
    return data[:at], data[at:]


class Continuity:
    """Makes the counters of transport stream segments go on from one to the next: each has a muxer of its own."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def carry_on(self, data: bytes) -> bytes:
        carried = bytearray(data)
        shifts: dict[int, int] = {}
        for at in range(0, len(carried) - _PACKET_BYTES + 1, _PACKET_BYTES):
            if carried[at] != _SYNC or not carried[at + 3] & 0x10:
                continue
            pid = (carried[at + 1] & 0x1F) << 8 | carried[at + 2]
            counter = carried[at + 3] & 0x0F
            if pid not in shifts:
                shifts[pid] = (self._last.get(pid, counter - 1) + 1 - counter) & 0x0F
            counter = (counter + shifts[pid]) & 0x0F
            carried[at + 3] = carried[at + 3] & 0xF0 | counter
            self._last[pid] = counter
        return bytes(carried)
