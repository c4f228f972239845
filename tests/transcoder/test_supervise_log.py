"""Logs and events of children that say much, or something odd."""

from __future__ import annotations

import re
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pipelines.errors import Crashed
from tests.transcoder.processes import Listener, running_supervisor, task
from transcoder.children.supervise import Supervisor

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAX_LOG_BYTES = 64 * 1024
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def supervisor() -> AsyncIterator[Supervisor]:
    async with running_supervisor(max_log_bytes=MAX_LOG_BYTES, max_log_line_bytes=200) as supervisor:
        yield supervisor


async def test_thousand_lines_are_logged_and_told(supervisor: Supervisor, tmp_path: Path) -> None:
    listener = Listener()

    await supervisor.execute(task("log_lines", count=1000, log_path=tmp_path / "log"), on_event=listener)

    lines = (tmp_path / "log").read_text().splitlines()
    assert [STAMP.sub("", line, count=1) for line in lines] == [f"line {n}" for n in range(1000)] == listener.log
    assert all(STAMP.match(line) for line in lines)


async def test_second_attempt_continues_the_log(supervisor: Supervisor, tmp_path: Path) -> None:
    for _ in range(2):
        await supervisor.execute(task("log_lines", count=2, log_path=tmp_path / "log"))

    assert len((tmp_path / "log").read_text().splitlines()) == 4


@pytest.mark.slow
async def test_log_flood_is_bounded_and_the_work_goes_on(supervisor: Supervisor, tmp_path: Path) -> None:
    listener = Listener()

    await supervisor.execute(task("log_lines", count=300_000, log_path=tmp_path / "log"), on_event=listener)

    assert listener.log[-1] == "the log is full; later messages are dropped"
    assert sum(len(line) + 1 for line in listener.log) < MAX_LOG_BYTES + 300
    assert len((tmp_path / "log").read_text().splitlines()) == len(listener.log)


@pytest.mark.parametrize(
    ("text", "logged"),
    [
        ("a\x1b[31mred\x1b[0m\x07\r\n", ["a[31mred[0m"]),
        ("tab\there\x00\x9b\n", ["tab here\N{REPLACEMENT CHARACTER}"]),
        ("\n\n  \nlast without end", ["last without end"]),
        ("\xff\xfe\x80 title\n", ["\N{REPLACEMENT CHARACTER}" * 3 + " title"]),
        ("x" * 500 + "\nnext\n", ["x" * 200 + " …", "next"]),
    ],
)
async def test_log_lines_are_clean_and_short(supervisor: Supervisor, text: str, logged: list[str]) -> None:
    listener = Listener()

    await supervisor.execute(task("log_raw", text=text), on_event=listener)

    assert listener.log == logged


async def test_messages_of_ffmpeg_are_in_the_log(supervisor: Supervisor) -> None:
    listener = Listener()

    await supervisor.execute(task("ffmpeg_message"), on_event=listener)

    assert [line.rpartition("] ")[2] for line in listener.log] == ["from the library"]


async def test_log_that_cannot_be_written_does_not_stop_the_work(supervisor: Supervisor, tmp_path: Path) -> None:
    listener = Listener()
    log_path = tmp_path / "missing" / "log"

    await supervisor.execute(task("log_lines", count=2, log_path=log_path), on_event=listener)

    assert sorted(listener.log) == ["line 0", "line 1", "the log can't be written: No such file or directory"]


@pytest.mark.slow
async def test_progress_flood_is_thinned(supervisor: Supervisor) -> None:
    listener = Listener()

    await supervisor.execute(task("flood_events", event="progress", count=50_000), on_event=listener)

    told = [data["frames"] for data in listener.of_kind("progress")]
    assert told[-1] == 49_999
    assert len(told) < 500


async def test_warning_flood_is_bounded(supervisor: Supervisor) -> None:
    listener = Listener()

    await supervisor.execute(task("flood_events", event="warning", count=20_000), on_event=listener)

    assert len(listener.of_kind("warning")) == 1000


@pytest.mark.slow
async def test_endless_line_does_not_grow_memory(supervisor: Supervisor) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(Crashed, match="unreadable"):
        await supervisor.execute(task("endless_line"))

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40 * 1024
