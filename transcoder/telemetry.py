"""Metrics for Prometheus. One registry per application, and labels of bounded number.

A client chooses queue names, paths and methods; what goes beyond a bound is counted as `other`, so that nobody can fill
the memory of the service or of Prometheus with names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import version
from itertools import pairwise
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.live.stats import LiveStats
from transcoder.gpus.load import Load
from transcoder.jobs import Job, JobStatus
from transcoder.stream_figures import StreamFigures

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

OTHER = "other"
MAX_QUEUES = 50
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

# seconds: from thumbnails to feature films
_JOB_BUCKETS = (0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600)


class DeviceLoad(Protocol):
    """What /metrics shows of a device."""

    @property
    def id(self) -> str: ...
    @property
    def slots(self) -> int: ...
    @property
    def busy(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def load(self) -> Load | None: ...


class Telemetry:
    """Counts what happens. The service calls its observer methods, the API the others."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._queues: set[str] = set()
        self._jobs = Gauge(
            "transcoder_jobs_active", "Jobs that are queued or running.", ("status", "queue"), registry=self._registry
        )
        self._finished = Counter("transcoder_jobs", "Jobs that ended.", ("status", "queue"), registry=self._registry)
        self._queue_wait = Histogram(
            "transcoder_queue_wait_seconds",
            "From the submission of jobs to the start of their first attempt.",
            ("queue",),
            buckets=_JOB_BUCKETS,
            registry=self._registry,
        )
        self._frames = Counter(
            "transcoder_frames", "Pictures that ended attempts wrote.", ("device",), registry=self._registry
        )
        self._fallbacks = Counter(
            "transcoder_fallback",
            "Attempts after a failed one: its device, the next one's, its error code. Counted when the job ends.",
            ("from", "to", "reason"),
            registry=self._registry,
        )
        self._job_seconds = Histogram(
            "transcoder_job_seconds",
            "From start to end of jobs that completed.",
            ("queue",),
            buckets=_JOB_BUCKETS,
            registry=self._registry,
        )
        self._attempts_started = Counter(
            "transcoder_attempts_started", "Attempts that started.", ("device",), registry=self._registry
        )
        self._attempt_seconds = Histogram(
            "transcoder_attempt_seconds",
            "From start to end of attempts.",
            ("device", "status"),
            buckets=_JOB_BUCKETS,
            registry=self._registry,
        )
        self._slots = Gauge("transcoder_slots", "Slots of a device.", ("device",), registry=self._registry)
        self._busy = Gauge("transcoder_slot_busy", "Slots that run something.", ("device",), registry=self._registry)
        self._ready = Gauge(
            "transcoder_device_ready", "1 when a device takes tasks.", ("device",), registry=self._registry
        )
        self._engines = Gauge(
            "transcoder_device_engine_busy_ratio",
            "Share of their time that a GPU's engines of a class are busy.",
            ("device", "engine"),
            registry=self._registry,
        )
        self._memory = Gauge(
            "transcoder_device_memory_bytes",
            "Memory that processes hold on a GPU.",
            ("device",),
            registry=self._registry,
        )
        self._streams = StreamFigures(self._registry)
        self._free = Gauge(
            "transcoder_disk_free_bytes", "Free space of the data folder's disk.", registry=self._registry
        )
        self._version = Info("transcoder_build", "What runs.", registry=self._registry)
        self._version.info({"version": version("transcoder")})
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "transcoder_http_requests",
            "HTTP requests that were answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        # looking a counter up by its labels takes longer than counting
        self._answered: dict[tuple[str, str, int], Counter] = {}
        self._upload_bytes = Counter(
            "transcoder_upload_bytes", "Bytes of uploads that were stored.", registry=self._registry
        )

    def job_finished(self, job: Job) -> None:
        queue = self._queue(job.queue)
        self._finished.labels(job.status.value, queue).inc()
        for before, after in pairwise(job.attempts):
            if before.task == after.task and before.status == "failed" and before.error is not None:
                self._fallbacks.labels(before.device, after.device, before.error.code).inc()
        if job.status is JobStatus.COMPLETED and job.started_at is not None and job.finished_at is not None:
            self._job_seconds.labels(queue).observe((job.finished_at - job.started_at).total_seconds())

    def job_started(self, queue: str, waited_seconds: float) -> None:
        self._queue_wait.labels(self._queue(queue)).observe(waited_seconds)

    def frames_written(self, device: str, count: int) -> None:
        self._frames.labels(device).inc(count)

    def attempt_started(self, device: str) -> None:
        self._attempts_started.labels(device).inc()

    def attempt_finished(self, device: str, status: str, seconds: float) -> None:
        self._attempt_seconds.labels(device, status).observe(seconds)

    def upload_stored(self, size: int) -> None:
        self._upload_bytes.inc(size)

    def request_answered(self, route: str | None, method: str, status: int) -> None:
        """`route` is the route's template; None when no route matched."""
        labels = route or OTHER, method if method in METHODS else OTHER, status
        counter = self._answered.get(labels)
        if counter is None:
            counter = self._answered[labels] = self._requests.labels(*map(str, labels))
        counter.inc()

    def exposition(
        self,
        devices: Iterable[DeviceLoad],
        jobs: Mapping[tuple[str, JobStatus], int],
        *,
        streams: Mapping[str, LiveStats] = {},
        free_bytes: int | None = None,
    ) -> bytes:
        """The text that Prometheus reads. `jobs`: how many wait or run now, by queue and status."""
        self._streams.show(streams)
        if free_bytes is not None:
            self._free.set(free_bytes)
        for gauge in (self._slots, self._busy, self._ready, self._engines, self._memory):
            gauge.clear()
        for device in devices:
            self._show_device(device)
        self._jobs.clear()
        for (queue, status), number in jobs.items():
            self._jobs.labels(status.value, self._queue(queue)).inc(number)
        return generate_latest(self._registry)

    def _show_device(self, device: DeviceLoad) -> None:
        self._slots.labels(device.id).set(device.slots)
        self._busy.labels(device.id).set(device.busy)
        self._ready.labels(device.id).set(device.state == "ready")
        if device.load is None:
            return
        for engine, share in device.load.engines.items():
            self._engines.labels(device.id, engine).set(share)
        if device.load.memory_bytes is not None:
            self._memory.labels(device.id).set(device.load.memory_bytes)

    def _queue(self, name: str) -> str:
        if name not in self._queues and len(self._queues) >= MAX_QUEUES:
            return OTHER
        self._queues.add(name)
        return name


class CountRequests:
    """ASGI middleware that tells `telemetry` of each answer."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app, self._telemetry = app, telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # the router has put the matched route into the scope by now
                route = getattr(scope.get("route"), "path", None)
                self._telemetry.request_answered(route, scope["method"], message["status"])
            await send(message)

        await self._app(scope, receive, counted)
