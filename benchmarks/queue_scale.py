"""The queue with a long history: listing, counting, picking and adding with 0 and with 100,000 finished jobs.

python -m benchmarks.queue_scale [FINISHED] [DATABASE_URL]

The database is SQLite in a temporary folder, or what the URL names: an empty one on PostgreSQL.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sqlalchemy import insert

from pipelines.devices import Device
from tests.transcoder.stubs import StubExecutor, ended, give_upload, job_for, running_service
from transcoder.clock import utc_now
from transcoder.ids import new_id
from transcoder.jobs import JobStatus, Upload
from transcoder.queueing.admission import FreeSlots, claim
from transcoder.service import Service
from transcoder.store import NewJob
from transcoder.tables import attempts, jobs, tasks

QUEUED, CLIENTS, ROUNDS = 5_000, 50, 50


async def add_history(service: Service, upload: Upload, count: int) -> list[str]:
    """Rows of jobs that have completed, as they would stand there; their ids."""
    spec, done = job_for(upload), []
    for start in range(0, count, 1000):
        new = [
            NewJob(new_id(), "default", spec, None, "any", utc_now()) for _ in range(start, min(count, start + 1000))
        ]
        done += [job.id for job in new]
        ended_values = {"status": "completed", "started_at": utc_now(), "finished_at": utc_now(), "outputs": []}
        async with service.database.write() as connection:
            await connection.execute(insert(jobs), [{**job.row(), **ended_values} for job in new])
            await connection.execute(
                insert(tasks), [{**job.task_row(), "state": "completed", "attempt": 1} for job in new]
            )
            await connection.execute(insert(attempts), [_attempt(job) for job in new])
    return done


def _attempt(job: NewJob) -> dict[str, object]:
    return {
        "task_id": f"{job.id}-0",
        "number": 1,
        "job_id": job.id,
        "task": 0,
        "device": "software",
        "status": "completed",
        "reason": "",
        "started_at": utc_now(),
        "finished_at": utc_now(),
    }


async def timed(name: str, call: Callable[[], Awaitable[object]]) -> None:
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - began)
    print(f"  {name:34} {statistics.median(seconds) * 1000:7.1f} ms, p95 {sorted(seconds)[-3] * 1000:7.1f} ms")


async def pick(service: Service) -> None:
    """What the dispatcher asks; rolled back."""
    device = Device(id="software", kind="software", name="CPU", slots=4)
    try:
        async with service.database.write() as connection:
            assert len(await claim(connection, [FreeSlots(device, 4)], utc_now())) == 4
            raise InterruptedError
    except InterruptedError:
        return


async def enqueue(service: Service, upload: Upload, count: int, clients: int) -> float:
    async def client() -> None:
        for _ in range(count // clients):
            await service.submit(job_for(upload))

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return time.perf_counter() - began


async def starts(service: Service, executor: StubExecutor, upload: Upload) -> list[float]:
    """Seconds from `submit` until the executor has the work, with a free slot."""
    waits = []
    for _ in range(ROUNDS):
        executor.entered.clear()
        began = time.perf_counter()
        job, _ = await service.submit(job_for(upload))
        await executor.entered.wait()
        waits.append(time.perf_counter() - began)
        await ended(service, job.id)
    return sorted(waits)


async def measure(finished: int, url: str | None) -> None:
    print(f"{finished} finished jobs:")
    executor = StubExecutor()
    with tempfile.TemporaryDirectory() as folder:
        shared = {} if url is None else {"database_url": url, "node": "bench"}
        async with running_service(Path(folder), executor, slots=2, **shared) as service:
            (device,) = service.devices()
            upload = await give_upload(service)
            done = await add_history(service, upload, finished)
            waits = await starts(service, executor, upload)
            print(f"  accept to start: median {waits[len(waits) // 2] * 1000:.0f} ms, p95 {waits[-3] * 1000:.0f} ms")
            await service.update_device(device.id, slots=0, draining=None)
            seconds = await enqueue(service, upload, QUEUED, CLIENTS)
            print(f"  {QUEUED} jobs from {CLIENTS} clients: {seconds:.1f} s")
            one_by_one = await enqueue(service, upload, 500, 1)
            print(f"  500 jobs one after another: {one_by_one:.1f} s")
            middle = f"j-{done[len(done) // 2]}" if done else None
            await timed("list 50", lambda: service.list(limit=50))
            await timed("list 50 from the middle", lambda: service.list(limit=50, cursor=middle))
            await timed("list 50 completed", lambda: service.list(limit=50, status=JobStatus.COMPLETED))
            await timed("list 50 failed (there are none)", lambda: service.list(limit=50, status=JobStatus.FAILED))
            await timed("list 50 of another queue", lambda: service.list(limit=50, queue="other"))
            await timed("counts of what waits and runs", service.store.active_counts)
            await timed("pick 4", lambda: pick(service))


if __name__ == "__main__":
    database_url = sys.argv[2] if len(sys.argv) > 2 else None
    numbers = [int(sys.argv[1]) if len(sys.argv) > 1 else 100_000]
    for number in numbers if database_url else (0, *numbers):
        asyncio.run(measure(number, database_url))
