"""The service: everything wired together, behind the calls that the API, and tests, make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from pipelines.asked.streams import StreamJob
from pipelines.devices import Device
from pipelines.presets import Preset, load_presets, resolve
from pipelines.rendition import Plan
from pipelines.source import SourceInfo
from pipelines.spec import FileJob, Input
from transcoder.attempts.attempts import runner_for
from transcoder.attempts.fallback import in_order
from transcoder.attempts.retry import RetryPolicy
from transcoder.batch import Batcher
from transcoder.children.executor import Executor
from transcoder.children.sandbox import SandboxPolicy
from transcoder.children.supervise import Supervisor
from transcoder.clock import utc_now
from transcoder.cluster.backend import backend_for
from transcoder.database import Database
from transcoder.depot.choice import storage_for
from transcoder.engine import DeviceState, Engine
from transcoder.errors import NoWorker, ServiceError, ServiceUnavailable
from transcoder.events import EventBus
from transcoder.gpus.devices import Devices
from transcoder.gpus.load import LoadMeter
from transcoder.gpus.quarantine import DeviceGuard, GuardSettings
from transcoder.gpus.speeds import SpeedBook
from transcoder.health import Health
from transcoder.inputs import inputs_for
from transcoder.inspection import Inspector
from transcoder.intake import intake_for
from transcoder.job_bodies import JobBodies
from transcoder.jobs import Job, JobStatus, Upload
from transcoder.news import News
from transcoder.observer import Observer, Unobserved
from transcoder.progress import ProgressBoard
from transcoder.queueing.preference import preference
from transcoder.queueing.queues import QueueSettings, QueueState, QueueStore
from transcoder.quotas import OpenUploads, quotas_for
from transcoder.settings import Settings
from transcoder.storage import Storage
from transcoder.store import JOBS_AT_ONCE, Added, Idempotency, JobStore, NewJob, Page
from transcoder.streams.desk import desk_for
from transcoder.sweep import Sweeper
from transcoder.thumbnails import Thumbnails
from transcoder.uploads.partials import PartialStore
from transcoder.uploads.resumable import Resumable
from transcoder.uploads.sink import UploadSink
from transcoder.uploads.uploads import UploadStore
from transcoder.webhooks.courier import courier_for
from transcoder.webhooks.deliveries import DeliveryStore


class Service:
    """An async context manager; within it jobs are accepted and run."""

    _engine: Engine

    def __init__(
        self,
        settings: Settings,
        *,
        supervisor: Executor | None = None,
        devices: Sequence[Device] | None = None,
        observer: Observer | None = None,
        storage: Storage | None = None,
    ) -> None:
        self.settings = settings
        self.presets: Mapping[str, Preset] = load_presets(settings.presets_dir)
        self.database = Database(settings.effective_database_url)
        quotas = quotas_for(settings)
        self.store = JobStore(self.database, quotas)
        self.queues = QueueStore(self.database)
        self.uploads = UploadStore(self.database, quotas)
        self._open_uploads = OpenUploads(quotas)
        self.storage = storage or storage_for(settings)
        self.resumable = Resumable(
            self.storage,
            PartialStore(self.database, quotas),
            max_bytes=settings.max_upload_bytes,
            ttl_seconds=settings.resumable_ttl_seconds,
        )
        self.events = EventBus()
        sandbox = SandboxPolicy(settings.sandbox, settings.child_memory_bytes)
        self.supervisor: Executor = supervisor or Supervisor(sandbox=sandbox)
        devices = () if settings.role == "api" else devices
        self._devices = (
            Devices.found(settings, self.supervisor) if devices is None else Devices.fixed(devices, self.supervisor)
        )
        self._load = LoadMeter()
        self._retry = RetryPolicy(settings.max_attempts, settings.retry_backoff_seconds)
        self._board = ProgressBoard(self.store, lambda job_id, stats: self.events.publish(job_id, "progress", stats))
        self.running_streams = self._board.streams
        self.deliveries = DeliveryStore(self.database)
        self.courier = courier_for(settings, self.deliveries)
        self._news = News(self.store, self.events, self._board, observer or Unobserved(), self.courier.wake)
        self._inputs = inputs_for(settings, self.storage, self.uploads)
        self._intake = intake_for(
            settings, self.presets, self._inputs, lambda device_id: self._speeds.of(device_id), self._foretold
        )
        self._inspector = Inspector(
            self.storage,
            self._inputs,
            self.supervisor,
            limits=settings.limits,
            timeout_seconds=settings.probe_timeout_seconds,
            fetch_seconds=settings.attempt_timeout_seconds,
        )
        self.thumbnails = Thumbnails(
            self.storage, self._inputs, self.supervisor, settings.limits, settings.probe_timeout_seconds
        )
        self._guard = DeviceGuard(
            self.supervisor,
            self.storage,
            settings.limits,
            GuardSettings(settings.breaker_failures, settings.canary_pause_seconds, settings.canary_timeout_seconds),
            self.database,
            lambda: self._engine,
        )
        self._speeds = SpeedBook(self.database, lambda: self._engine.devices())
        self.streams = desk_for(settings, self.database, self.store, self.storage, self.supervisor)
        self.bodies = JobBodies(self.store, self._board.merged, self.streams.shown)
        self._runner = runner_for(
            *(settings, self._retry, self.database, self.storage, self._inputs, self.supervisor, self.events),
            *(self._board, self._news, self._guard, self.streams.runner, lambda: self._engine, self._speeds),
        )
        self._sweeper = Sweeper(
            self.storage, self.store, self.uploads, settings.upload_ttl_seconds, settings.job_ttl_seconds
        )
        backend = backend_for(
            *(settings, self.database, self.storage, self.resumable, self._sweeper, self._retry, self._news),
            *(self.courier, self._runner.run, self._devices.all),
        )
        self._engine, self._site, self.nodes = backend.engine, backend.site, backend.nodes
        self._duties = backend.duties
        self._adding: Batcher[NewJob, Added | ServiceError] = Batcher(self.store.add, max_size=JOBS_AT_ONCE)
        self._open = False
        self._scope = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as scope:
            await self._site.open(scope)
            scope.callback(self.events.close)
            await self.supervisor.start()
            scope.push_async_callback(self.supervisor.close)
            self.supervisor.layers.log(self.settings.sandbox)
            await self._devices.start(self._engine.set_device)
            once = (self._sweeper.keep_sweeping, self.courier.keep_delivering, self.resumable.keep_expiring)
            here = (self._board.keep_saving, self._devices.keep_measuring, self._load.keep_looking)
            for work in (*here, self._speeds.keep_reading, *self._duties, *self._site.shared(once)):
                scope.push_async_callback(_end, asyncio.ensure_future(work()))
            await self._engine.start()
            scope.push_async_callback(self._guard.close)
            scope.push_async_callback(self._stop)
            self._open = True
            self._scope = scope.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._scope.aclose()

    async def _stop(self) -> None:
        self._open = False
        await self._engine.close(grace_seconds=self.settings.shutdown_seconds)

    async def submit(
        self, spec: FileJob | StreamJob, *, tenant: str = "default", idempotency: Idempotency | None = None
    ) -> tuple[Job, bool]:
        """The job, and whether it is new (an idempotency key may have one already).

        What can't work is refused here: what `Intake.prepare` refuses, InputUploadNotFound, IdempotencyConflict,
        UnknownQueue, QueueFull, TooManyJobs; and NoWorker.
        """
        if not self._open:
            raise ServiceUnavailable("the service is stopping")
        new = await self._intake.prepare(spec, tenant, idempotency, self._usable())
        added = await self._adding.submit(new)
        if isinstance(added, ServiceError):
            raise added
        if added.job is None:
            return await self.get(added.job_id, tenant), False
        self._engine.wake()
        job = added.job.as_job()
        if self.events.wanted(job.id):
            self.events.publish(job.id, "status", job.model_dump(mode="json"))
        return job, True

    async def get(self, job_id: str, tenant: str = "default") -> Job:
        """JobNotFound for unknown jobs and for those of other tenants."""
        return await self.streams.shown(await self.get_briefly(job_id, tenant))

    async def get_briefly(self, job_id: str, tenant: str = "default") -> Job:
        """Without what a running stream has published: its folder is not read."""
        return self._board.merged(await self.store.get(job_id, tenant))

    async def list(
        self,
        *,
        tenant: str = "default",
        status: JobStatus | None = None,
        queue: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Job]:
        """Newest first; plans are left out."""
        page = await self.store.page(tenant=tenant, status=status, queue=queue, limit=limit, cursor=cursor)
        return Page(tuple(self._board.merged(rows.job()) for rows in page.items), page.next)

    async def cancel(self, job_id: str, tenant: str = "default") -> Job:
        """Cancelled when it returns, unless the job ended by itself in that moment. Conflict for jobs that ended so."""
        before = await self.store.request_cancel(job_id, tenant, utc_now())
        if before is JobStatus.QUEUED:
            await self.storage.discard_job_outputs(job_id)
            # others may have waited for it
            self._engine.wake()
            await self._news.job_ended(job_id, tenant)
        elif before is JobStatus.RUNNING:
            await self._engine.cancel(job_id)
        return await self.get(job_id, tenant)

    async def retry(self, job_id: str, tenant: str = "default") -> Job:
        """Queues a failed or cancelled job again; Conflict for others."""
        await self.store.requeue(job_id, tenant, utc_now())
        self._engine.wake()
        await self._news.job_changed(job_id, tenant)
        return await self.get(job_id, tenant)

    async def set_priority(self, job_id: str, priority: int, tenant: str = "default") -> Job:
        """Conflict unless the job is queued."""
        await self.store.set_priority(job_id, priority, tenant)
        self._engine.wake()
        return await self.get(job_id, tenant)

    async def delete(self, job_id: str, tenant: str = "default") -> None:
        """The job, its outputs and its log. Conflict while it runs."""
        await self.store.delete(job_id, tenant)
        await self.storage.delete_job(job_id)

    @asynccontextmanager
    async def receive(self, name: str, tenant: str = "default") -> AsyncGenerator[UploadSink, None]:
        """Takes an upload: leaving without an error stores it, and `sink.upload` can be named in jobs.

        TooManyUploads, TenantStorageFull.
        """
        stored = await self.uploads.stored_bytes(tenant)
        with self._open_uploads.admitted(tenant, stored) as allowance:
            async with self.storage.receive(name, allowance.take) as sink:
                yield sink
                await sink.finish()
                await self.uploads.add(sink.upload, tenant)

    async def get_upload(self, upload_id: str, tenant: str = "default") -> Upload:
        return await self.uploads.get(upload_id, tenant)

    async def delete_upload(self, upload_id: str, tenant: str = "default") -> None:
        """Conflict while a queued or running job uses it."""
        await self.uploads.delete(upload_id, tenant)
        await self.storage.delete_upload(upload_id)

    async def probe(self, source: Input, tenant: str = "default") -> SourceInfo:
        return await self._inspector.probe(source, tenant)

    async def plan(self, spec: FileJob, tenant: str = "default") -> Plan:
        """What would be done, without doing it."""
        resolved = resolve(spec, self.presets)
        ready = tuple(state for state in self._usable() if state.state != "measuring")
        preferred = preference(resolved, ready, self._speeds.of)
        return await self._foretold(resolved, tenant, preferred.ordered(spec.device, in_order(spec.device, ready)))

    async def _foretold(self, spec: FileJob, tenant: str, devices: Sequence[Device]) -> Plan:
        return await self._inspector.plan(spec, tenant, devices, self._guard.verdicts, self._speeds.pace)

    async def put_queue(self, name: str, settings: QueueSettings) -> tuple[QueueState, bool]:
        """The queue, and whether it is new. It holds from the next free slot on."""
        created = await self.queues.put(name, settings, utc_now())
        self._engine.wake()
        return await self.queues.get(name), created

    def _usable(self) -> tuple[DeviceState, ...]:
        """Devices of all nodes that take tasks, now or later. NoWorker while no node has told of one yet."""
        known = self._engine.devices()
        if not known and self.settings.clustered:
            raise NoWorker("no worker is known that could run jobs; start one, or wait until it has")
        return tuple(state for state in known if state.state != "unusable")

    def devices(self) -> tuple[DeviceState, ...]:
        return tuple(self._speeds.told(self._load.told(state)) for state in self._engine.devices())

    async def update_device(self, device_id: str, *, slots: int | None, draining: bool | None) -> DeviceState:
        """Until the service stops; fewer slots stop nothing that runs."""
        state = await self._engine.update_device(device_id, slots=slots, draining=draining)
        if draining:
            await self._guard.unpin(device_id)
        return self._load.told(state)

    def measure_device(self, device_id: str) -> DeviceState:
        """Looks anew what a GPU can do; it takes no tasks meanwhile. DeviceNotFound, Conflict."""
        own = f"@{self.settings.node}"
        self._devices.request(device_id.removesuffix(own) if self.settings.clustered else device_id)
        return next(state for state in self.devices() if state.id == device_id)

    async def healthy(self) -> Health:
        engine, database = self._engine.alive(), await self.store.answers()
        return Health(ready=self._open and engine and database, database=database, engine=engine)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
