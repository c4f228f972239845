"""How far running jobs are: in memory for readers, in the database once a second for after a crash."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from pipelines.live.stats import LiveStats
from pipelines.result import Progress
from transcoder.jobs import Job, JobStatus
from transcoder.store import JobStore

SAVE_SECONDS = 1.0

logger = logging.getLogger(__name__)


@dataclass
class Live:
    """What a running attempt said last. `piece`: its task, where it is one of a job in pieces."""

    job_id: str
    piece: str | None = None
    progress: Progress | LiveStats = field(default_factory=lambda: Progress(fraction=0.0))
    plan: dict[str, Any] | None = None
    saved: bool = False

    @property
    def stats(self) -> dict[str, Any]:
        return self.progress.model_dump(mode="json")


class ProgressBoard:
    """Live progress by job. How far a job in pieces is, all nodes know together: it is read back when it is saved.

    `tell` is told of it then.
    """

    def __init__(
        self, store: JobStore, tell: Callable[[str, dict[str, Any]], None] = lambda job_id, stats: None
    ) -> None:
        self._store, self._tell = store, tell
        self._live: dict[str, Live] = {}
        self._pieces: dict[str, Live] = {}

    def begin(self, job_id: str, piece: str | None = None) -> Live:
        live = Live(job_id, piece)
        if piece is None:
            self._live[job_id] = live
        else:
            self._pieces[piece] = live
        return live

    def end(self, live: Live) -> None:
        board, key = (self._live, live.job_id) if live.piece is None else (self._pieces, live.piece)
        if board.get(key) is live:
            del board[key]

    def streams(self) -> dict[str, LiveStats]:
        """What the streams of this process said last, by job."""
        said = {job_id: live.progress for job_id, live in self._live.items()}
        return {job_id: progress for job_id, progress in said.items() if isinstance(progress, LiveStats)}

    def runs(self, job_id: str) -> bool:
        """Whether the job runs in this process."""
        return job_id in self._live or any(live.job_id == job_id for live in self._pieces.values())

    def update(self, live: Live, progress: Progress | LiveStats) -> None:
        live.progress, live.saved = progress, False

    def merged(self, job: Job) -> Job:
        """`job` with what is known since its row was written."""
        live = self._live.get(job.id)
        if live is None or job.status is not JobStatus.RUNNING:
            return job
        progress = live.progress
        return job.model_copy(
            update={
                "progress": progress.fraction,
                "eta_seconds": progress.eta_seconds,
                "stats": progress,
                "state": progress.state if isinstance(progress, LiveStats) else None,
                "plan": live.plan or job.plan,
            }
        )

    async def keep_saving(self) -> None:
        """Writes what changed, once a second, until cancelled."""
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            try:
                await self._save()
            except SQLAlchemyError:
                logger.warning("progress can't be saved; trying again", exc_info=True)

    async def _save(self) -> None:
        changed = [live for live in self._live.values() if not live.saved]
        pieces = {key: live for key, live in self._pieces.items() if not live.saved}
        for live in (*changed, *pieces.values()):
            live.saved = True
        if changed:
            await self._store.save_progress([(live.job_id, live.progress.fraction, live.stats) for live in changed])
        if pieces:
            told = {key: live.progress for key, live in pieces.items() if isinstance(live.progress, Progress)}
            for job_id, progress in (await self._store.save_pieces(told)).items():
                self._tell(job_id, progress.model_dump(mode="json"))
