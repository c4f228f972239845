"""What a job in pieces consists of, and how attempts of its tasks end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.result import Progress
from pipelines.stitch.piece import PieceResult, PieceSpec

PIECES_SHARE = 0.9
"""Of a job's progress; the rest is putting them together."""


@dataclass(frozen=True)
class NewPiece:
    spec: PieceSpec
    seconds: float


@dataclass(frozen=True)
class Cut:
    """How the first attempt of a job ends that goes on in pieces. `source`: what file they are of."""

    pieces: tuple[NewPiece, ...]
    source: str

    @property
    def way(self) -> str:
        return f"cut into {len(self.pieces)} pieces"


@dataclass(frozen=True)
class Encoded:
    """How an attempt of a piece ends well. None: its file is another one than was cut, so the job is done in one."""

    result: PieceResult | None

    @property
    def way(self) -> str | None:
        return "the input has changed since it was cut" if self.result is None else None


@dataclass(frozen=True)
class Piece:
    """A piece as it is in the database."""

    number: int
    seconds: float
    spec: PieceSpec
    source: str
    attempt: int | None
    result: PieceResult | None


@dataclass(frozen=True)
class Share:
    """A piece of a job's progress. `told`: what its attempt, if one runs or has ended well, said last."""

    seconds: float
    state: str
    told: Progress | None


def combined(shares: Sequence[Share]) -> Progress:
    """How far a job is by its pieces."""
    heard = [(share, share.told) for share in shares if share.told is not None]
    running = [told for share, told in heard if share.state == "running"]
    counted = [(share, told) for share, told in heard if share.state in ("running", "completed")]
    whole = sum(share.seconds for share in shares)
    done = sum(share.seconds * (told.fraction or 0.0) for share, told in counted)
    speed = sum(told.speed for told in running)
    return Progress(
        frames=sum(told.frames for _, told in counted),
        out_time=round(sum(told.out_time for _, told in counted), 3),
        bytes=sum(told.bytes for _, told in counted),
        fps=round(sum(told.fps for told in running), 3),
        speed=round(speed, 3),
        fraction=min(1.0, done / whole) * PIECES_SHARE if whole > 0 else 0.0,
        eta_seconds=max(0.0, whole - done) / speed if speed > 0 else None,
    )


def while_joining(progress: Progress) -> Progress:
    """How far a job is whose pieces are put together, by what that says."""
    if progress.fraction is None:
        return progress
    return progress.model_copy(update={"fraction": PIECES_SHARE + (1 - PIECES_SHARE) * progress.fraction})


def stamp_of(path: Path) -> str:
    """Tells a file from another one under its name. Blocks."""
    facts = os.stat(path)
    return f"{facts.st_size}-{facts.st_mtime_ns}"
