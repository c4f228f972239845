"""One piece of a job: the video of a part of its input, encoded on the whole job's clock."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from pipelines.assembly import Assembly
from pipelines.limits import Limits
from pipelines.mux import Writer
from pipelines.opening.input import LocalFile
from pipelines.packaging.codecs import nal_units
from pipelines.packaging.sealing.blocks import Cipher
from pipelines.rendition import OutputPlan, Plan, VideoRendition
from pipelines.result import Progress, Warning
from pipelines.run import OnProgress, run
from pipelines.source import Facts, Ratio, SourceInfo
from pipelines.stitch.packets import Head, put
from pipelines.timestamps import microseconds
from pipelines.tracks import Holes, Span
from pipelines.video.worker import VideoWorker

FILE_NAME = "piece"
BUFFER_BYTES = 1 << 20


class PieceSpec(Facts):
    """What of the input a piece is, in seconds on the input's clock. None: from its start, to its end."""

    start: Ratio | None = None
    end: Ratio | None = None


class Seen(Facts):
    """What a decoder saw of a track (see `tracks.TrackState`); times on the input's clock."""

    frames: int
    errors: int
    packets: int
    first: Ratio | None
    end: Ratio | None
    done: bool


class PieceResult(Facts):
    """What a piece is. `first` and `end` in ticks of `time_base`, counted from the whole job's start.

    `parameters`: what decoders are told before the first packet, in hexadecimal; equal in all pieces that go together.
    """

    encoder: str
    parameters: str
    time_base: Ratio
    frames: int
    packets: int
    bytes: int
    first: int | None
    end: int
    dropped: int = 0
    repeated: int = 0
    seen: Seen
    warnings: tuple[Warning, ...] = ()


def pieces_of(cuts: tuple[Fraction, ...]) -> tuple[PieceSpec, ...]:
    """The pieces between cuts, in order."""
    return tuple(PieceSpec(start=a, end=b) for a, b in zip((None, *cuts), (*cuts, None), strict=True))


def run_piece(
    plan: Plan,
    piece: PieceSpec,
    source: SourceInfo,
    file: LocalFile,
    folder: Path,
    *,
    limits: Limits,
    on_progress: OnProgress | None = None,
    cancelled: threading.Event | None = None,
) -> PieceResult:
    """Writes the piece to FILE_NAME in `folder`. `plan` is the whole job's; whether it is complete, the whole tells."""
    made: list[PieceAssembly] = []

    def assemble(*collaborators: Any) -> PieceAssembly:
        made.append(PieceAssembly(piece, *collaborators))
        return made[0]

    output = plan.outputs[0]
    video = tuple(each for each in output.renditions if isinstance(each, VideoRendition))
    only = output.model_copy(update={"renditions": video, "path": FILE_NAME, "chapters": None})
    told = None if on_progress is None else _Pace(piece, source, on_progress)
    run(
        plan.model_copy(update={"outputs": (only,)}), source, file, folder,
        limits=limits, on_progress=told, cancelled=cancelled, assemble=assemble,
    )  # fmt: skip
    return made[0].told()


class PieceAssembly(Assembly):
    """An assembly whose span is one piece, and whose output is a file of packets."""

    def __init__(self, piece: PieceSpec, *collaborators: Any) -> None:
        self._piece = piece
        super().__init__(*collaborators)

    def _taken(self) -> Span:
        start = microseconds(self.source.start_seconds)
        begins = self._piece.start
        return Span(start if begins is None else begins, self._piece.end, begins is not None, origin=start, exact=True)

    def _open_writer(self, output: OutputPlan, folder: Path, cipher: Cipher | None) -> Writer:
        return PacketWriter(output, folder)

    def judge(self, holes: Holes) -> None:
        """A piece makes no promise: damage is allowed for in the whole."""

    def told(self) -> PieceResult:
        """Once the run is over."""
        writer = self.writers[0]
        assert isinstance(writer, PacketWriter)
        (worker,) = self.tally.workers.values()
        (state,) = self.states
        planned = set(self.plan.warnings)
        return PieceResult(
            encoder=worker.rendition.encoder,
            parameters=writer.parameters.hex(),
            time_base=worker.time_base,
            frames=worker.encoder.frames,
            packets=worker.encoder.packets,
            bytes=worker.encoder.bytes,
            first=writer.first,
            end=worker.encoder.end,
            **_slots(worker),
            seen=Seen(
                frames=state.frames,
                errors=state.errors,
                packets=state.packets,
                first=state.first,
                end=state.end,
                done=state.done,
            ),
            warnings=tuple(warning for warning in self.warnings.all() if warning not in planned),
        )


class PacketWriter(Writer):
    """Packets of one encoder, whose container is there for what it asks of encoders and never written."""

    first: int | None = None
    parameters = b""

    def _open(self) -> Any:
        self._file = self.path.open("wb", buffering=BUFFER_BYTES)
        return av.open(io.BytesIO(), "w", format=self.plan.muxer)

    def _write_header(self, chapters: object) -> None:
        return

    def _put(self, packet: Packet[Any]) -> None:
        assert packet.pts is not None
        self.first = packet.pts if self.first is None else min(self.first, packet.pts)
        self.bytes += packet.size
        put(self._file, Head(packet.pts, packet.duration or 0, packet.size, packet.is_keyframe), bytes(packet))

    def close(self) -> None:
        if self._closed:
            return
        self._file.close()
        self.parameters = parameters_of(self._container.streams.video[0])
        super().close()


def parameters_of(stream: Any) -> bytes:
    """What decoders have to know of an encoder's track, and nothing about the machine that it runs on.

    x265 has all its options told beside the parameter sets, the number of its threads among them.
    """
    context = stream.codec_context
    extradata = bytes(context.extradata or b"")
    told = _TOLD.get(context.codec.canonical_name)
    if told is None:
        return extradata
    return b"".join(b"\0\0\1" + unit for unit in nal_units(extradata) if not told(unit[0]))


_TOLD: dict[str, Callable[[int], bool]] = {
    "h264": lambda head: head & 0x1F == 6,
    "hevc": lambda head: head >> 1 & 0x3F in (39, 40),
}
"""Which NAL units, by their first byte, are supplemental information."""


def _slots(worker: VideoWorker) -> dict[str, int]:
    constant = worker.constant
    return {} if constant is None else {"dropped": constant.dropped, "repeated": constant.repeated}


class _Pace:
    """Progress of a piece: the encoder's clock is the whole job's."""

    def __init__(self, piece: PieceSpec, source: SourceInfo, tell: Callable[[Progress], None]) -> None:
        start = microseconds(source.start_seconds)
        whole = microseconds(source.duration_seconds or 0)
        self._begin = float(0 if piece.start is None else piece.start - start)
        self._length = float(whole if piece.end is None else piece.end - start) - self._begin
        self._tell, self._began = tell, time.monotonic()

    def __call__(self, progress: Progress) -> None:
        done = max(0.0, progress.out_time - self._begin)
        speed = done / max(1e-6, time.monotonic() - self._began)
        share = min(1.0, done / self._length) if self._length > 0 else None
        left = max(0.0, self._length - done)
        self._tell(
            progress.model_copy(
                update={
                    "out_time": round(done, 3),
                    "speed": round(speed, 3),
                    "fraction": share,
                    "eta_seconds": left / speed if speed > 0 else None,
                }
            )
        )
