"""What people see: progress, notes and tables. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from transcoder.cli.values import format_bytes, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.result import Progress, Result, Warning

UNBOUNDED = 10_000
"""Columns of a page that nobody looks at: no cell is folded, so `grep` finds what it looks for."""

LINE_SECONDS = 10.0
"""Time between progress lines where there is no terminal to draw a bar on."""


@cache
def out() -> Console:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else UNBOUNDED)


@cache
def err() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr, flush=True)


def own_command() -> str:
    """How this program is called from here: its name where that is enough, its path otherwise."""
    if shutil.which("transcoder") is not None:
        return "transcoder"
    called = Path(sys.argv[0])
    return f"{sys.executable} -m transcoder" if called.suffix == ".py" else str(called)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table on stdout."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        # Text, not markup: values come from files and may hold brackets
        grid.add_row(*(Text(cell) for cell in row))
    out().print(grid)


def show_warnings(warnings: Iterable[Warning]) -> None:
    for warning in warnings:
        times = f" ({warning.count} times)" if warning.count > 1 else ""
        where = "" if warning.first_seconds is None else f" at {format_seconds(warning.first_seconds)}"
        say(f"warning [{warning.code}]: {warning.message}{where}{times}")


def describe(result: Result) -> str:
    """A result in one line."""
    output = result.outputs[0]
    tracks = " + ".join(
        f"{track.codec} copied" if track.encoder is None else track.codec for track in output.renditions
    )
    wall = max(result.wall_seconds, 1e-9)
    speed = "" if output.duration_seconds is None else f" ({output.duration_seconds / wall:.1f}× real time)"
    return (
        f"{format_bytes(output.size)}, {format_seconds(output.duration_seconds)}, {tracks}; "
        f"took {format_seconds(result.wall_seconds)}{speed}"
    )


class ProgressView(Protocol):
    """Shows progress while it is entered; `show` and `note` may be called from any thread."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def note(self, step: str) -> None: ...
    def show(self, progress: Progress) -> None: ...


class Quiet:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def note(self, step: str) -> None:
        return None

    def show(self, progress: Progress) -> None:
        return None


class Lines(Quiet):
    """Progress as a line every few seconds: for logs and pipes."""

    def __init__(self, *, line_seconds: float = LINE_SECONDS) -> None:
        self._line_seconds = line_seconds
        self._next = time.monotonic() + line_seconds

    def note(self, step: str) -> None:
        say(step)

    def show(self, progress: Progress) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._line_seconds
        share = format_seconds(progress.out_time) if progress.fraction is None else f"{progress.fraction:4.0%}"
        eta = "" if progress.eta_seconds is None else f"  eta {format_seconds(round(progress.eta_seconds))}"
        say(f"{share}  {progress.fps:.0f} fps  {progress.speed:.2f}×{eta}")


class Bar(Quiet):
    """A progress bar on the terminal, gone when the work is done."""

    def __init__(self) -> None:
        from rich import progress

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.fields[share]:>5}  {task.fields[rate]}", style="bold"),
            progress.TextColumn("{task.fields[eta]}", style="dim"),
            console=err(),
            transient=True,
            expand=True,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("starting", total=None, share="", rate="", eta="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def note(self, step: str) -> None:
        self._bar.update(self._task, description=step, total=None, share="", rate="", eta="")

    def show(self, progress: Progress) -> None:
        known = progress.fraction is not None
        self._bar.update(
            self._task,
            total=1.0 if known else None,
            completed=progress.fraction if known else 0.0,
            share=f"{progress.fraction:.0%}" if known else format_seconds(progress.out_time),
            rate=f"{progress.fps:.0f} fps  {progress.speed:.2f}×",
            eta="" if progress.eta_seconds is None else f"eta {format_seconds(round(progress.eta_seconds))}",
        )


def progress_view(*, quiet: bool) -> ProgressView:
    """A bar on a terminal, lines elsewhere, nothing when quiet."""
    if quiet:
        return Quiet()
    return Bar() if err().is_terminal else Lines()
