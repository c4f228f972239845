"""Tracks as RTP for a server of RTSP: their description (RFC 8866), and packets as RTSP has them between its messages.

For each packet is written: `$`, its channel, its length in 2 bytes, the packet (RFC 2326, 10.12). A track has two
channels: its packets, and its reports.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Protocol

from pipelines.errors import OutputFailed
from pipelines.live.remux import Mux
from pipelines.live.units import Piece, Track

PACKET_BYTES = 1400
"""With all headers around it, it fits an Ethernet frame."""
FIRST_PAYLOAD_TYPE = 96
_REPORTS = range(200, 205)
"""Packet types of RTCP (RFC 3550)."""
_SPS, _PPS = 7, 8


class Target(Protocol):
    def write(self, data: bytes) -> int: ...


class _Channel:
    """A file for FFmpeg's RTP muxer, which writes one packet at a time."""

    def __init__(self, target: Target, number: int) -> None:
        self._target, self._number = target, number

    def write(self, data: bytes) -> int:
        packet = bytes(data)
        number = 2 * self._number + (packet[1] in _REPORTS)
        self._target.write(b"$" + number.to_bytes(1) + len(packet).to_bytes(2) + packet)
        return len(packet)


class RtpMux:
    """Used as a `Mux` is. Pieces from before `start` are left out."""

    def __init__(self, target: Target, tracks: Sequence[Track], start: Fraction) -> None:
        self._start = start
        self._muxes: dict[str, Mux] = {}
        for number, track in enumerate(tracks):
            options = {
                "packetsize": str(PACKET_BYTES),
                "payload_type": str(FIRST_PAYLOAD_TYPE + number),
                "avoid_negative_ts": "disabled",
            }
            self._muxes[track.name] = Mux(_Channel(target, number), "rtp", [track], options=options, start=start)

    def open(self) -> None:
        for mux in self._muxes.values():
            mux.open()

    def write(self, piece: Piece) -> None:
        if piece.time >= self._start:
            self._muxes[piece.track.name].write(piece)

    def close(self) -> None:
        for mux in self._muxes.values():
            mux.close()


def description(tracks: Sequence[Track]) -> str:
    """OutputFailed for a codec that is not described here."""
    lines = ["v=0", "o=- 0 0 IN IP4 127.0.0.1", "s=stream", "c=IN IP4 0.0.0.0", "t=0 0"]
    for number, track in enumerate(tracks):
        describe = _FORMATS.get(track.codec)
        if describe is None:
            raise OutputFailed(f"RTSP does not take {track.codec} here", stage="mux", codec=track.codec)
        kind = FIRST_PAYLOAD_TYPE + number
        form, parameters = describe(track)
        lines += [f"m={track.kind} 0 RTP/AVP {kind}", f"a=rtpmap:{kind} {form}", f"a=fmtp:{kind} {parameters}"]
        lines.append(f"a=control:streamid={number}")
    return "\r\n".join([*lines, ""])


def _h264(track: Track) -> tuple[str, str]:
    """RFC 6184."""
    sets = [unit for unit in parameter_sets(track.extradata) if unit[0] & 0x1F in (_SPS, _PPS)]
    told = ["packetization-mode=1"]
    if sets:
        told.append("sprop-parameter-sets=" + ",".join(base64.b64encode(unit).decode() for unit in sets))
        told += [f"profile-level-id={unit[1:4].hex()}" for unit in sets[:1] if unit[0] & 0x1F == _SPS]
    return "H264/90000", ";".join(told)


def _aac(track: Track) -> tuple[str, str]:
    """RFC 3640, as FFmpeg's muxer packs it."""
    rate = track.time_base.denominator if not track.copied else _aac_rate(track.extradata)
    told = "profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3"
    return f"MPEG4-GENERIC/{rate}/{track.channels}", f"{told};config={track.extradata.hex()}"


_FORMATS: dict[str, Callable[[Track], tuple[str, str]]] = {"h264": _h264, "aac": _aac}
_AAC_RATES = (96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350)


def _aac_rate(config: bytes) -> int:
    """ISO/IEC 14496-3, 1.6.2.1: four bits after the object type's five name the rate."""
    index = (int.from_bytes(config[:2].ljust(2, b"\0")) >> 7) & 0x0F
    if not config or index >= len(_AAC_RATES):
        raise OutputFailed("the sound does not say its sample rate", stage="mux", codec="aac")
    return _AAC_RATES[index]


def parameter_sets(extradata: bytes) -> Iterator[bytes]:
    """Of H.264: the units that its header has, as MP4 keeps them or with start codes."""
    if extradata[:1] != b"\x01":
        yield from (unit.rstrip(b"\0") for unit in extradata.split(b"\0\0\1") if unit.strip(b"\0"))
        return
    at, left = 6, extradata[5] & 0x1F if len(extradata) > 5 else 0
    for which in range(2):
        if which == 1:
            left, at = (extradata[at], at + 1) if at < len(extradata) else (0, at)
        for _ in range(left):
            size = int.from_bytes(extradata[at : at + 2])
            unit = extradata[at + 2 : at + 2 + size]
            at += 2 + size
            if unit:
                yield unit
