"""`transcoder top`: devices, queues and jobs of a service, as they change."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transcoder.cli.jobs import DEFAULT_SERVER, ServerOption, connect
from transcoder.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipelines.live.stats import LiveStats
    from pipelines.result import Progress
    from transcoder.cli.client import Client
    from transcoder.jobs import Job
    from transcoder.queueing.queues import QueueState

MAX_RUNNING, MAX_WAITING = 30, 10
BAR_CHARACTERS = 20


@dataclass(frozen=True)
class Snapshot:
    """What a service does at one moment."""

    devices: tuple[dict[str, Any], ...]
    queues: tuple[QueueState, ...]
    running: tuple[Job, ...]
    waiting: tuple[Job, ...]

    def as_json(self) -> dict[str, Any]:
        models = {"queues": self.queues, "running": self.running, "waiting": self.waiting}
        return {"devices": [*self.devices]} | {
            name: [each.model_dump(mode="json") for each in found] for name, found in models.items()
        }


def top(
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Watch a running service: slots, queues, jobs. Ctrl-C ends it; --json prints one look."""
    from transcoder.cli.screen import out, print_json

    with connect(server) as client:
        if as_json:
            print_json(_look(client).as_json())
        elif once or not out().is_terminal:
            out().print(_drawn(_look(client)))
        else:
            _follow(client, every)


def _follow(client: Client, every: float) -> None:
    from rich.live import Live

    from transcoder.cli.screen import out

    with Live(_drawn(_look(client)), console=out(), screen=True, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(every)
                live.update(_drawn(_look(client)), refresh=True)
        except KeyboardInterrupt:
            return


def _look(client: Client) -> Snapshot:
    from transcoder.jobs import JobStatus

    return Snapshot(
        devices=tuple(client.devices()),
        queues=tuple(client.queues()),
        running=tuple(client.jobs(status=JobStatus.RUNNING, queue=None, limit=MAX_RUNNING)),
        waiting=tuple(client.jobs(status=JobStatus.QUEUED, queue=None, limit=MAX_WAITING)),
    )


def _drawn(seen: Snapshot) -> RenderableType:
    from rich.console import Group

    devices = _table("devices", ("device", "state", "slots", "", "load"), map(_device, seen.devices))
    queues = _table("queues", ("queue", "running", "waiting", "weight", ""), map(_queue, seen.queues))
    jobs = [*map(_job, seen.running), *map(_job, seen.waiting)]
    return Group(
        devices, queues, _table("jobs", ("job", "input", "status", "device", "", "done", "rate", "left"), jobs)
    )


def _table(title: str, columns: tuple[str, ...], rows: Any) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _device(device: dict[str, Any]) -> tuple[str, ...]:
    busy, slots = device["busy"], device["slots"]
    engines = ((device.get("load") or {}).get("engines") or {}).items()
    load = "  ".join(f"{name} {share:.0%}" for name, share in engines)
    return device["name"], device["state"], f"{busy}/{slots}", "■" * busy + "□" * max(0, slots - busy), load


def _queue(queue: QueueState) -> tuple[str, ...]:
    return queue.name, str(queue.running), str(queue.queued), f"{queue.weight:g}", "paused" if queue.paused else ""


def _job(job: Job) -> tuple[str, ...]:
    from transcoder.cli.jobsheet import source_name
    from transcoder.cli.values import format_seconds

    device = job.latest_attempt.device if job.latest_attempt else ""
    filled = round((job.progress or 0) * BAR_CHARACTERS)
    bar = "" if job.progress is None else "█" * filled + "░" * (BAR_CHARACTERS - filled)
    share = "" if job.progress is None else f"{job.progress:.0%}"
    left = "" if job.eta_seconds is None else format_seconds(round(job.eta_seconds))
    return job.id, source_name(job), job.state or str(job.status), device, bar, share, _rate(job.stats), left


def _rate(stats: Progress | LiveStats | None) -> str:
    if stats is None:
        return ""
    from pipelines.result import Progress

    # a stream runs in real time, and is told by what comes in
    return f"{stats.fps:.0f} fps {stats.speed:.1f}×" if isinstance(stats, Progress) else f"{stats.in_fps:.0f} fps"
