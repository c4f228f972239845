"""The tasks of a job in pieces: made together, ended together. Everything here is within another's transaction.

Task 0 is the job's own. It is `waiting` while its pieces, tasks 1 and up, are made; when the last one has completed it
is queued, to put them together. A job runs while any of its tasks does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.result import Progress
from pipelines.stitch.piece import PieceResult, PieceSpec
from transcoder.queueing.requirements import ANY, SOFTWARE, requested
from transcoder.split.tables import pieces
from transcoder.split.values import Cut, NewPiece, Piece, Share, combined
from transcoder.tables import jobs, tasks

_NOT_BEGUN = ("queued", "waiting")
_FREE = dict.fromkeys(("pool", "device", "node", "held", "claimed_at", "beat_at"))


def piece_requirement(requirement: str) -> str:
    """What a device must be for a piece: all are made by one encoder, or they would not go together."""
    return SOFTWARE if requirement == ANY else requirement


async def found(connection: AsyncConnection, task_id: str, cut: Cut, now: datetime) -> dict[str, Any]:
    """Adds the pieces of a task, in its place of the queue; what becomes of the task itself."""
    own = (await connection.execute(select(tasks).where(tasks.c.id == task_id))).mappings().one()
    requirement = piece_requirement(own["requirement"])
    numbered = list(enumerate(cut.pieces, 1))
    await connection.execute(insert(tasks), [_task_row(own, number, requirement, now) for number, _ in numbered])
    await connection.execute(insert(pieces), [_row(own, number, piece, cut.source) for number, piece in numbered])
    return {"state": "waiting", "requirement": requirement}


def _task_row(own: RowMapping, number: int, requirement: str, now: datetime) -> dict[str, Any]:
    return {
        **own,
        **_FREE,
        "id": _task_id(own, number),
        "number": number,
        "state": "queued",
        "requirement": requirement,
        "available_at": now,
        "attempt": 0,
        "budget_from": 0,
    }


def _row(own: RowMapping, number: int, piece: NewPiece, source: str) -> dict[str, Any]:
    return {
        "task_id": _task_id(own, number),
        "job_id": own["job_id"],
        "number": number,
        "seconds": piece.seconds,
        "spec": piece.spec.model_dump(mode="json"),
        "source": source,
    }


def _task_id(own: RowMapping, number: int) -> str:
    return f"{own['job_id']}-{number:03}"


async def read(connection: AsyncConnection, job_id: str) -> tuple[Piece, ...]:
    """A job's pieces in order; none: it is in one."""
    rows = await connection.execute(select(pieces).where(pieces.c.job_id == job_id).order_by(pieces.c.number))
    return tuple(map(_piece, rows.mappings()))


async def read_piece(connection: AsyncConnection, task_id: str) -> Piece:
    return _piece((await connection.execute(select(pieces).where(pieces.c.task_id == task_id))).mappings().one())


def _piece(row: RowMapping) -> Piece:
    result = None if row["result"] is None else PieceResult.model_validate(row["result"])
    spec = PieceSpec.model_validate(row["spec"])
    return Piece(row["number"], row["seconds"], spec, row["source"], row["attempt"], result)


async def keep(connection: AsyncConnection, task_id: str, attempt: int, result: PieceResult | None) -> None:
    """The piece is made, by this attempt."""
    values: dict[str, Any] = {"told": Progress(fraction=1.0).model_dump(mode="json")}
    if result is not None:
        seconds = (await connection.execute(select(pieces.c.seconds).where(pieces.c.task_id == task_id))).scalar_one()
        told = Progress(frames=result.frames, bytes=result.bytes, out_time=round(seconds, 3), fraction=1.0)
        values = {
            "told": told.model_dump(mode="json"),
            "attempt": attempt,
            "result": result.model_dump(mode="json"),
        }
    await connection.execute(update(pieces).where(pieces.c.task_id == task_id).values(**values))


async def advance(connection: AsyncConnection, job_id: str, now: datetime) -> None:
    """Queues the task that puts the pieces together, when they are all there."""
    open_pieces = select(tasks.c.id).where(tasks.c.job_id == job_id, tasks.c.number > 0, tasks.c.state != "completed")
    if (await connection.execute(open_pieces.limit(1))).first() is None:
        await connection.execute(
            update(tasks)
            .where(tasks.c.job_id == job_id, tasks.c.number == 0, tasks.c.state == "waiting")
            .values(state="queued", available_at=now)
        )


async def forget_told(connection: AsyncConnection, task_id: str) -> None:
    """The piece is begun anew."""
    await connection.execute(update(pieces).where(pieces.c.task_id == task_id).values(told=None))


async def runs(connection: AsyncConnection, job_id: str) -> bool:
    """Whether any task of the job does."""
    running = select(tasks.c.id).where(tasks.c.job_id == job_id, tasks.c.state == "running").limit(1)
    return (await connection.execute(running)).first() is not None


async def call_off(connection: AsyncConnection, job_id: str, state: str) -> None:
    """What of the job has not begun ends so; what is made stays made."""
    await connection.execute(
        update(tasks).where(tasks.c.job_id == job_id, tasks.c.state.in_(_NOT_BEGUN)).values(state=state)
    )


async def is_called_off(connection: AsyncConnection, job_id: str) -> bool:
    """Whether the job is to end, and nothing of it to go on."""
    query = select(jobs.c.id).where(jobs.c.id == job_id, CALLED_OFF)
    return (await connection.execute(query)).first() is not None


CALLED_OFF = jobs.c.cancel_requested | jobs.c.error.is_not(None)
"""Of a job that has not ended: a user wants so, or one of its pieces failed for good."""


async def reopen(connection: AsyncConnection, job_id: str, spec: Mapping[str, Any], now: datetime) -> None:
    """Queues what of an ended job is not made, with a fresh budget of attempts."""
    rows = await connection.execute(
        select(tasks.c.id, tasks.c.number, tasks.c.queued_at, tasks.c.hop_at, pieces.c.attempt)
        .join(pieces, pieces.c.task_id == tasks.c.id, isouter=True)
        .where(tasks.c.job_id == job_id)
    )
    members = rows.all()
    left = [row for row in members if row.number == 0 or row.attempt is None]
    in_pieces = len(members) > 1
    wanted = requested(spec)
    for row in left:
        waits = row.number == 0 and len(left) > 1
        await connection.execute(
            update(tasks)
            .where(tasks.c.id == row.id)
            .values(
                state="waiting" if waits else "queued",
                queued_at=now,
                available_at=now,
                hop_at=now + (row.hop_at - row.queued_at),
                budget_from=tasks.c.attempt,
                requirement=piece_requirement(wanted) if in_pieces else wanted,
            )
        )


async def save_told(connection: AsyncConnection, told: Mapping[str, Progress]) -> dict[str, Progress]:
    """What attempts of pieces said, by task; how far their jobs are."""
    rows = [{"its_task": task_id, "its_told": each.model_dump(mode="json")} for task_id, each in told.items()]
    await connection.execute(
        update(pieces)
        .where(pieces.c.task_id == bindparam("its_task"), pieces.c.result.is_(None))
        .values(told=bindparam("its_told", type_=pieces.c.told.type)),
        rows,
    )
    found_in = await connection.execute(select(pieces.c.job_id).where(pieces.c.task_id.in_(told)).distinct())
    return await tell(connection, list(found_in.scalars()))


async def tell(connection: AsyncConnection, job_ids: Collection[str]) -> dict[str, Progress]:
    """Writes how far jobs in pieces are that have not ended."""
    shares = await _shares(connection, job_ids)
    progress = {job_id: combined(parts) for job_id, parts in shares.items()}
    for job_id, each in progress.items():
        await connection.execute(
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.finished_at.is_(None))
            .values(progress=each.fraction, stats=each.model_dump(mode="json"))
        )
    return progress


async def _shares(connection: AsyncConnection, job_ids: Iterable[str]) -> dict[str, Sequence[Share]]:
    rows = await connection.execute(
        select(pieces.c.job_id, pieces.c.seconds, pieces.c.told, tasks.c.state)
        .join(tasks, tasks.c.id == pieces.c.task_id)
        .where(pieces.c.job_id.in_(job_ids))
    )
    shares: dict[str, list[Share]] = defaultdict(list)
    for row in rows.all():
        told = None if row.told is None else Progress.model_validate(row.told)
        shares[row.job_id].append(Share(row.seconds, row.state, told))
    return dict(shares)
