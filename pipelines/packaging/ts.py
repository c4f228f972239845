"""Transport stream segments from one muxer's packets: each begins with the tables that players need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipelines.packaging.segments import Assembled

PACKET_BYTES = 188
OFFSET_SECONDS = 10
"""Where the clock of transport streams starts: pictures that are reordered are decoded before the first one is shown,
and no decode time is below zero."""
PAT_PID, SDT_PID, PMT_PID = 0, 17, 0x1000
MUXER_OPTIONS = {
    "flush_packets": "1",
    "mpegts_copyts": "1",
    "avoid_negative_ts": "disabled",
    "output_ts_offset": str(OFFSET_SECONDS),
    "mpegts_pmt_start_pid": str(PMT_PID),
    "pes_payload_size": "0",
}


@dataclass(frozen=True)
class TsPiece:
    """What the muxer made of one packet."""

    begin: Fraction
    cuttable: bool
    data: bytes


class TsTables:
    """Takes the tables out of what the muxer writes, and puts them where segments begin, counted on by itself."""

    def __init__(self) -> None:
        self._tables: dict[int, bytes] = {}
        self._count = 0

    def without(self, data: bytes) -> bytes:
        if len(data) % PACKET_BYTES:
            raise ValueError("not whole transport packets")
        kept: list[bytes] = []
        for number, (high, low) in enumerate(zip(data[1::PACKET_BYTES], data[2::PACKET_BYTES], strict=True)):
            packet = data[number * PACKET_BYTES : (number + 1) * PACKET_BYTES]
            pid = (high & 0x1F) << 8 | low
            if pid in (PAT_PID, PMT_PID):
                self._tables.setdefault(pid, packet)
            elif pid != SDT_PID:
                kept.append(packet)
        return b"".join(kept)

    @property
    def head(self) -> bytes:
        """What a segment begins with, as the muxer wrote it."""
        return b"".join(self._tables.values())

    @property
    def map(self) -> bytes:
        """The packet that says which stream there is (PMT)."""
        return self._tables[PMT_PID]

    @map.setter
    def map(self, packet: bytes) -> None:
        self._tables[PMT_PID] = packet

    def assemble(self, pieces: Sequence[TsPiece], number: int) -> Assembled:
        head = b"".join(self._counted(table) for table in self._tables.values())
        self._count += 1
        first = pieces[0]
        iframes = ((first.begin, 0, len(head) + len(first.data)),)
        return Assembled(head + b"".join(piece.data for piece in pieces), iframes)

    def _counted(self, table: bytes) -> bytes:
        return table[:3] + bytes([table[3] & 0xF0 | self._count & 0xF]) + table[4:]
