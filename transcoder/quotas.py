"""What one tenant may take of the service: jobs that wait, uploads at once, bytes of uploads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.errors import TenantOutputsFull, TenantStorageFull, TooManyJobs, TooManyUploads
from transcoder.jobs import JobStatus
from transcoder.settings import Settings
from transcoder.tables import jobs, partial_uploads, uploads


@dataclass(frozen=True)
class Quotas:
    """Of each tenant."""

    queued_jobs: int
    open_uploads: int
    stored_bytes: int
    output_bytes: int | None = None
    """Of completed jobs; None: no limit."""

    def too_many_jobs(self) -> TooManyJobs:
        return TooManyJobs(
            f"{self.queued_jobs} jobs are waiting already; wait until some have started", limit=self.queued_jobs
        )

    def storage_full(self) -> TenantStorageFull:
        return TenantStorageFull(
            f"uploads may hold {self.stored_bytes} bytes altogether; delete some", limit_bytes=self.stored_bytes
        )

    def outputs_full(self) -> TenantOutputsFull:
        return TenantOutputsFull(
            f"outputs hold {self.output_bytes} bytes already; delete jobs that are done with",
            limit_bytes=self.output_bytes,
        )

    async def check_jobs(self, connection: AsyncConnection, tenant: str) -> None:
        """TooManyJobs when no more may be queued. In the transaction that queues one."""
        if (await queued_jobs(connection, {tenant})).get(tenant, 0) >= self.queued_jobs:
            raise self.too_many_jobs()

    async def check_storage(self, connection: AsyncConnection, tenant: str, more_bytes: int) -> None:
        """TenantStorageFull when so much more is too much. In the transaction that stores it."""
        if await stored_bytes(connection, tenant) + more_bytes > self.stored_bytes:
            raise self.storage_full()


async def queued_jobs(connection: AsyncConnection, tenants: Collection[str]) -> dict[str, int]:
    """Jobs that wait, by tenant."""
    found = await connection.execute(
        select(jobs.c.tenant, func.count())
        .where(jobs.c.tenant.in_(tenants), jobs.c.status == JobStatus.QUEUED.value)
        .group_by(jobs.c.tenant)
    )
    return {row[0]: row[1] for row in found}


async def stored_bytes(connection: AsyncConnection, tenant: str) -> int:
    """Bytes of a tenant's uploads, with what those have room set aside for that come in pieces."""
    total = 0
    for table in (uploads, partial_uploads):
        found = await connection.execute(
            select(func.coalesce(func.sum(table.c.size), 0)).where(table.c.tenant == tenant)
        )
        total += int(found.scalar_one())
    return total


@dataclass
class _Open:
    """A tenant's uploads on their way."""

    count: int = 0
    size: int = 0


class OpenUploads:
    """Uploads on their way in this process. What has come of them counts before it is stored."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._open: dict[str, _Open] = defaultdict(_Open)

    @contextmanager
    def admitted(self, tenant: str, stored: int) -> Iterator[Allowance]:
        """One upload more, of a tenant that stores so many bytes. TooManyUploads, TenantStorageFull."""
        limit = self._quotas.open_uploads
        if stored >= self._quotas.stored_bytes:
            raise self._quotas.storage_full()
        mine = self._open[tenant]
        if mine.count >= limit:
            raise TooManyUploads(f"{limit} uploads are on their way already", limit=limit)
        allowance = Allowance(self._quotas, mine, stored)
        mine.count += 1
        try:
            yield allowance
        finally:
            mine.count -= 1
            mine.size -= allowance.taken
            if mine.count == 0:
                del self._open[tenant]


class Allowance:
    """What one upload has taken."""

    def __init__(self, quotas: Quotas, tenants: _Open, stored: int) -> None:
        self._quotas, self._tenants, self._stored = quotas, tenants, stored
        self.taken = 0

    def take(self, count: int) -> None:
        """So many bytes more have come; TenantStorageFull when that is too much with all that is on its way."""
        self.taken += count
        self._tenants.size += count
        if self._stored + self._tenants.size > self._quotas.stored_bytes:
            raise self._quotas.storage_full()


def quotas_for(settings: Settings) -> Quotas:
    return Quotas(
        settings.max_queued_jobs,
        settings.max_open_uploads,
        settings.max_stored_bytes,
        settings.max_stored_output_bytes,
    )
