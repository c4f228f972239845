"""What users do with streams: stop them, look at them, read what they publish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pipelines.asked.streams import StreamJob
from transcoder.children.executor import Executor
from transcoder.clock import utc_now
from transcoder.database import Database
from transcoder.errors import Conflict
from transcoder.jobs import Job, JobStatus
from transcoder.settings import Settings
from transcoder.storage import Storage
from transcoder.store import JobStore
from transcoder.streams.dial import Dialer
from transcoder.streams.edge import Wanted
from transcoder.streams.files import open_published, published
from transcoder.streams.holding import Holding
from transcoder.streams.listening import Ports
from transcoder.streams.runner import StreamRunner

STOP_SECONDS = 25.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class StreamDesk:
    store: JobStore
    storage: Storage
    runner: StreamRunner
    holding: Holding

    async def wait_for(self, job: Job, tenant: str, path: str, asked: Wanted | None) -> None:
        """Returns once the file has what is asked for, or is there at all where it is the next part of a stream.

        What `Holding.reload` raises.
        """
        if job.status is not JobStatus.RUNNING:
            return

        async def runs() -> bool:
            return (await self.store.get(job.id, tenant)).status is JobStatus.RUNNING

        folder = self.storage.live_folder(job.id)
        if asked is not None:
            await self.holding.reload(folder, path, asked, runs)
        else:
            await self.holding.part(folder, path, runs)

    async def shown(self, job: Job) -> Job:
        """The job with what it has published so far."""
        if not isinstance(job.spec, StreamJob):
            return job
        folder = self.storage.live_folder(job.id)
        outputs = await asyncio.to_thread(published, folder, job.spec)
        return job.model_copy(update={"outputs": outputs})

    async def stop(self, job_id: str, tenant: str, get: Callable[[], Awaitable[Job]]) -> Job:
        """Ends a running stream in order, and waits for it within a bound. Conflict for other jobs."""
        job = await get()
        if job.kind != "stream":
            raise Conflict(f"a {job.kind} job ends by itself; cancel it instead", job=job.id)
        if job.status is not JobStatus.RUNNING:
            raise Conflict(f"a stream that is {job.status.value} can't be stopped", status=job.status.value)
        # the record of the wish: it outlives this process, and other nodes see it
        await self.store.set_stop_at(job_id, tenant, utc_now())
        self.runner.stop(job_id)
        deadline = asyncio.get_running_loop().time() + STOP_SECONDS
        while job.status is JobStatus.RUNNING and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            job = await get()
        return job

    def open(self, job: Job, path: str) -> int | None:
        """A descriptor of a file that the stream has published; None without one. Blocks."""
        return open_published(self.storage.live_folder(job.id), path)


def desk_for(
    settings: Settings, database: Database, store: JobStore, storage: Storage, executor: Executor
) -> StreamDesk:
    ports = Ports(settings.listen_host, settings.listen_ports)
    dialer = Dialer(settings.allowed_networks)
    runner = StreamRunner(
        database, store, storage, executor, dialer, ports, settings.limits, settings.gpu_stall_seconds
    )
    return StreamDesk(store, storage, runner, Holding(max(1, settings.max_connections // 2)))
