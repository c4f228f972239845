"""Joining pieces: the whole job is run as it would be in one, but for its pictures, which come from the pieces.

Sound, subtitles, chapters, tags and the rules of the container are so the same as in a job that was never cut.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from av.packet import Packet

from pipelines.assembly import Assembly
from pipelines.channel import Channel
from pipelines.containers import CONTAINERS
from pipelines.encode import VideoEncoder
from pipelines.errors import PiecesDiffer
from pipelines.limits import Limits
from pipelines.mux import Writer
from pipelines.opening.input import LocalFile
from pipelines.rendition import Plan, VideoRendition
from pipelines.result import Result
from pipelines.run import OnProgress, run
from pipelines.source import Facts, SourceInfo
from pipelines.stitch.packets import heads, packets
from pipelines.stitch.piece import PieceResult, Seen, parameters_of
from pipelines.timestamps import lasts_until
from pipelines.tracks import TrackState


class Piece(Facts):
    """A finished piece and where it is."""

    path: Path
    result: PieceResult


def join(
    plan: Plan,
    pieces: Sequence[Piece],
    source: SourceInfo,
    file: LocalFile,
    folder: Path,
    *,
    limits: Limits,
    on_progress: OnProgress | None = None,
    cancelled: threading.Event | None = None,
) -> Result:
    """Writes the plan's output with the pieces, in order, as its pictures. PiecesDiffer: they do not go together."""

    def assemble(*collaborators: Any) -> JoinedAssembly:
        return JoinedAssembly(pieces, *collaborators)

    return run(
        plan, source, file, folder, limits=limits, on_progress=on_progress, cancelled=cancelled, assemble=assemble
    )


class JoinedAssembly(Assembly):
    """An assembly whose video is read from pieces."""

    def __init__(self, pieces: Sequence[Piece], *collaborators: Any) -> None:
        self._pieces = pieces
        super().__init__(*collaborators)
        planned = set(self.plan.warnings)
        for warning in chain.from_iterable(piece.result.warnings for piece in pieces):
            for _ in range(warning.count if warning not in planned else 0):
                self.warnings.add(warning.code, warning.message, warning.first_seconds)

    def _add_video(self, key: tuple[str, int], rendition: VideoRendition, writer: Writer) -> Channel[Any] | None:
        results = [piece.result for piece in self._pieces]
        time_base = results[0].time_base
        stream = writer.add(rendition, self.container, time_base)
        _check(results, rendition, parameters_of(stream).hex())
        encoder = VideoEncoder(stream, rendition, time_base)
        state = _added_up(rendition.stream, [result.seen for result in results])
        self.states.append(state)
        self.tally.encoders[key] = encoder
        joined = JoinedTrack(self._pieces, stream, encoder, writer, self.span.start)
        self.copies.setdefault(rendition.stream, []).append(joined)
        return None


class JoinedTrack:
    """Hands the pieces' packets on as the input's own are read: sound and pictures go into the file together."""

    def __init__(
        self, pieces: Sequence[Piece], stream: Any, encoder: VideoEncoder, writer: Writer, start: Fraction
    ) -> None:
        self._stream, self._encoder, self._writer, self._start = stream, encoder, writer, start
        self._time_base = pieces[0].result.time_base
        self._end = pieces[-1].result.end
        times = [head.pts for piece in pieces for head in heads(piece.path)]
        self._packets = self._timed(pieces, times)
        self._held: Packet[Any] | None = None

    def write(self, packet: Packet[Any], time_base: Fraction, *, shared: bool) -> None:
        if packet.dts is not None:
            self._advance((packet.dts * time_base - self._start) / self._time_base)

    def drain(self, time_base: Fraction) -> None:
        """Nothing waits to be put in order."""

    def finish(self, time_base: Fraction) -> None:
        self._advance(None)

    def _advance(self, until: Fraction | None) -> None:
        """Writes what is decoded before that tick; None: all."""
        while (packet := self._held or next(self._packets, None)) is not None:
            assert packet.dts is not None
            if until is not None and packet.dts > until:
                self._held = packet
                return
            self._held = None
            self._count(packet)
            self._writer.write([packet])

    def _count(self, packet: Packet[Any]) -> None:
        encoder = self._encoder
        encoder.first = packet.pts if encoder.first is None else encoder.first
        encoder.frames += 1
        encoder.packets += 1
        encoder.bytes += packet.size
        # the packet decoded last may have another's duration
        encoder.end = min(self._end, max(encoder.end, (packet.pts or 0) + (packet.duration or 0)))

    def _timed(self, pieces: Sequence[Piece], times: list[int]) -> Iterator[Packet[Any]]:
        """The packets of all pieces, with the decode times that one encoder would have given them."""
        due = decode_times(times)
        first = (times[0], due[0])
        number = 0
        for piece in pieces:
            for head, data in packets(piece.path):
                packet: Packet[Any] = Packet(data)
                packet.stream = self._stream
                packet.time_base = self._time_base
                packet.pts, packet.dts, packet.duration = head.pts, due[number], head.duration
                packet.is_keyframe = head.is_keyframe
                number += 1
                if number == len(times) and self._writer_keeps_last:
                    lasts_until(packet, self._end, first)
                yield packet

    @property
    def _writer_keeps_last(self) -> bool:
        return CONTAINERS[self._writer.plan.container].durations == "last"


def decode_times(times: Sequence[int]) -> list[int]:
    """Decode times of packets with these presentation times, which are in decode order.

    As encoders do: picture n in decode order is due when picture n - d is shown, where d is how far pictures are out of
    order at most; the first d are as far apart as they are shown.
    """
    shown = sorted(times)
    place = {time: number for number, time in enumerate(shown)}
    delay = max((number - place[time] for number, time in enumerate(times)), default=0)
    if not delay:
        return shown
    ahead = shown[min(delay, len(shown) - 1)] - shown[0]
    return [time - ahead for time in shown[:delay]] + shown[:-delay]


def _check(results: Sequence[PieceResult], rendition: VideoRendition, parameters: str) -> None:
    """Whether the pieces are what one encoder could have made, without a gap. PiecesDiffer."""
    for number, result in enumerate(results, 1):
        if (result.encoder, result.parameters) != (rendition.encoder, parameters):
            raise PiecesDiffer(f"piece {number} was made with other parameters", stage="mux", piece=number)
        if result.time_base != results[0].time_base or not result.packets:
            raise PiecesDiffer(f"piece {number} has no pictures, or another clock", stage="mux", piece=number)
    for number, (before, after) in enumerate(pairwise(results), 1):
        if before.end != after.first:
            raise PiecesDiffer(
                f"piece {number} ends at {before.end}, the next one begins at {after.first}", stage="mux", piece=number
            )


def _added_up(stream: int, seen: Sequence[Seen]) -> TrackState:
    """What the decoders of all pieces saw, as if it was one."""
    firsts = [each.first for each in seen if each.first is not None]
    ends = [each.end for each in seen if each.end is not None]
    return TrackState(
        stream=stream,
        kind="video",
        frames=sum(each.frames for each in seen),
        errors=sum(each.errors for each in seen),
        packets=sum(each.packets for each in seen),
        first=min(firsts, default=None),
        end=max(ends, default=None),
        done=seen[-1].done,
    )
