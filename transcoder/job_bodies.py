"""Jobs as the JSON that clients read."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import TypeAdapter

from transcoder.job_rows import JobRows
from transcoder.jobs import Job, JobStatus
from transcoder.store import JobStore

KEPT_BYTES = 16 << 20
"""Of bodies, and about as much again of the rows that they were made of."""

_JOB = TypeAdapter(Job)


@dataclass(frozen=True)
class _Kept:
    rows: JobRows
    body: bytes


class JobBodies:
    """What a file's job looks like that has ended depends on its rows alone: its body is kept with them, and given out
    as long as the database, whoever writes to it, has the very same ones.

    What rows do not say: `merged` adds what jobs that run said last, `shown` what streams have published.
    """

    def __init__(
        self,
        store: JobStore,
        merged: Callable[[Job], Job],
        shown: Callable[[Job], Awaitable[Job]],
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._store, self._merged, self._shown = store, merged, shown
        self._kept_bytes, self._size = kept_bytes, 0
        self._kept: OrderedDict[tuple[str, bool], _Kept] = OrderedDict()

    async def one(self, job_id: str, tenant: str) -> bytes:
        """JobNotFound."""
        rows = await self._store.rows(job_id, tenant)
        body = self._known(rows, listed=False)
        if body is not None:
            return body
        return self._made(rows, await self._shown(self._merged(rows.job())), listed=False)

    async def page(
        self, *, tenant: str, status: JobStatus | None, queue: str | None, limit: int, cursor: str | None
    ) -> bytes:
        """As `JobStore.page` has it: `items` and `next`."""
        page = await self._store.page(tenant=tenant, status=status, queue=queue, limit=limit, cursor=cursor)
        items = b",".join(self._listed(rows) for rows in page.items)
        return b'{"items":[%b],"next":%b}' % (items, json.dumps(page.next).encode())

    def _listed(self, rows: JobRows) -> bytes:
        body = self._known(rows, listed=True)
        return self._made(rows, self._merged(rows.job()), listed=True) if body is None else body

    def _known(self, rows: JobRows, *, listed: bool) -> bytes | None:
        key = rows.id, listed
        kept = self._kept.get(key)
        if kept is None or kept.rows.row != rows.row or kept.rows.attempts != rows.attempts:
            return None
        self._kept.move_to_end(key)
        return kept.body

    def _made(self, rows: JobRows, job: Job, *, listed: bool) -> bytes:
        body = _JOB.dump_json(job, by_alias=True)
        if job.kind == "file" and job.status.ended:
            self._keep((rows.id, listed), _Kept(rows, body))
        return body

    def _keep(self, key: tuple[str, bool], kept: _Kept) -> None:
        before = self._kept.pop(key, None)
        self._size += len(kept.body) - (0 if before is None else len(before.body))
        self._kept[key] = kept
        while self._size > self._kept_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.body)
