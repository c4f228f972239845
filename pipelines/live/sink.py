"""What pieces are handed to. Each sink has a bounded queue and a thread: a slow or dead one holds up nobody else."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

from pipelines.errors import PipelineError, cause
from pipelines.live.units import Piece
from pipelines.live.worker import Worker

State = Literal["waiting", "live", "retrying", "failed", "ended"]
MAX_QUEUED_BYTES = 64 << 20
MAX_QUEUED_SECONDS = Fraction(12)
BATCH_PIECES = 8
BATCH_SECONDS = 0.2
"""What need not be written at once is taken in batches of about this: waking a thread costs more than the piece."""


@dataclass
class Standing:
    """How an output is; read by others while its thread writes it."""

    name: str
    type: str
    state: State = "waiting"
    bytes: int = 0
    dropped: int = 0
    """Pieces that were thrown away because the output was too slow."""
    failures: int = 0
    error: str | None = None


class Sink(Protocol):
    """Has pieces of its tracks written somewhere."""

    standing: Standing
    tracks: frozenset[str]

    def put(self, piece: Piece) -> None: ...

    def start(self) -> None: ...

    def finish(self) -> None:
        """No more pieces come: what is queued is written."""

    def join(self, seconds: float) -> bool:
        """Whether it has ended within that time."""


class Queued(Worker):
    """A sink's queue and thread. Subclasses write; what they raise ends the sink, and no other."""

    prompt = False
    """Each piece is wanted as soon as it comes; else a leading keyframe is, which ends what was before."""

    def __init__(self, name: str, kind: str, tracks: frozenset[str], leader: str) -> None:
        super().__init__(f"output {name}")
        self.standing = Standing(name, kind)
        self.tracks = tracks
        self._leader = leader
        self._queue: deque[Piece] = deque()
        self._bytes = 0
        self._skipping = False
        self._broken = False
        self.final = True
        """Nothing will follow what comes last."""

    def put(self, piece: Piece) -> None:
        """Takes the piece, or drops it with all up to the next keyframe when the queue is full."""
        with self._changed:
            if self._finishing or self.standing.state == "failed":
                return
            leads = piece.track.name == self._leader and piece.unit.key
            if self._skipping and leads and self._bytes <= MAX_QUEUED_BYTES // 2:
                self._skipping = False
                self._broken = True
            if not self._skipping and self._is_full(piece):
                self._skipping = True
                self._shed()
            if self._skipping:
                self.standing.dropped += 1
                return
            if self._broken and leads:
                piece = Piece(piece.track, piece.unit, fresh=True)
                self._broken = False
            self._queue.append(piece)
            self._bytes += len(piece.unit.data)
            if self.prompt or leads or len(self._queue) >= BATCH_PIECES:
                self._changed.notify()

    def _is_full(self, piece: Piece) -> bool:
        return self._bytes > MAX_QUEUED_BYTES or (
            len(self._queue) > 1 and piece.time - self._queue[0].time > MAX_QUEUED_SECONDS
        )

    def _shed(self) -> None:
        """What waits is old by now: live is what comes next."""
        self.standing.dropped += len(self._queue)
        self._queue.clear()
        self._bytes = 0

    def _get(self) -> list[Piece]:
        """The next pieces; none at the end."""
        with self._changed:
            while not self._queue and not self._finishing:
                self._changed.wait(None if self.prompt else BATCH_SECONDS)
            pieces = [self._queue.popleft() for _ in range(min(BATCH_PIECES, len(self._queue)))]
            self._bytes -= sum(len(piece.unit.data) for piece in pieces)
            return pieces

    def _work(self) -> None:
        try:
            while pieces := self._get():
                for piece in pieces:
                    if self.standing.state == "failed":
                        self.standing.dropped += 1
                    else:
                        self.take(piece)
            self.end()
            if self.standing.state != "failed":
                self.standing.state = "ended"
        except (PipelineError, OSError, ValueError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.standing.error = getattr(error, "message", None) or cause(error)
        self.standing.failures += 1
        self.standing.state = "failed"
        with self._changed:
            self._shed()

    @abstractmethod
    def take(self, piece: Piece) -> None:
        """Writes one piece."""

    def end(self) -> None:
        """Once all pieces were taken."""
