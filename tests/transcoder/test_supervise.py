"""Results and errors of real children."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from pipelines.errors import Crashed, DiskFull, LimitExceeded, OutOfMemory, PipelineError
from tests.transcoder.processes import Listener, running_supervisor, task
from transcoder.children.supervise import Supervisor

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def supervisor() -> AsyncIterator[Supervisor]:
    async with running_supervisor() as supervisor:
        yield supervisor


async def test_result_of_a_child_is_returned(supervisor: Supervisor) -> None:
    result = await supervisor.execute(task("echo", text="äöü", number=1.5))

    assert result == {"do": "echo", "text": "äöü", "number": 1.5}


async def test_request_and_result_of_several_megabytes_arrive_whole(supervisor: Supervisor) -> None:
    result = await supervisor.execute(task("echo", text="x" * 3_000_000))

    assert len(result["text"]) == 3_000_000


async def test_result_beyond_the_bound_is_refused(supervisor: Supervisor) -> None:
    with pytest.raises(LimitExceeded) as caught:
        await supervisor.execute(task("large_result", bytes=5 << 20))

    assert caught.value.code == "limit_size"


async def test_events_come_in_their_order(supervisor: Supervisor) -> None:
    listener = Listener()
    told = [["plan", {"a": 1}], ["progress", {"frames": 1}], ["warning", {"code": "w"}]]

    await supervisor.execute(task("tell", events=told), on_event=listener)

    assert [[event.kind, event.data] for event in listener.events] == told


async def test_last_progress_is_told_even_when_it_came_fast(supervisor: Supervisor) -> None:
    listener = Listener()

    await supervisor.execute(task("advance", steps=30, pause_seconds=0.0), on_event=listener)

    assert listener.of_kind("progress")[-1]["frames"] == 29


async def test_children_run_side_by_side(supervisor: Supervisor) -> None:
    results = await asyncio.gather(*(supervisor.execute(task("echo", number=n)) for n in range(20)))

    assert [result["number"] for result in results] == list(range(20))


async def test_child_has_its_own_session_and_four_descriptors(supervisor: Supervisor) -> None:
    child = await supervisor.execute(task("describe"))

    assert child["session"] == child["group"] == child["pid"]
    assert child["descriptors"] == [0, 1, 2, 3]
    assert child["core"] == [0, 0]
    assert child["files"][0] <= 1024
    assert child["oom_score_adj"] == 500


async def test_child_has_neither_the_services_settings_nor_its_libraries(supervisor: Supervisor) -> None:
    child = await supervisor.execute(task("describe"))

    assert not [name for name in child["environment"] if name.startswith("TRANSCODER_")]
    assert not {"asyncio", "fastapi", "httpx2", "sqlalchemy", "uvicorn"} & set(child["modules"])
    assert "av" in child["modules"]


@pytest.mark.parametrize(
    ("name", "arguments", "code", "retryable"),
    [
        ("BadInput", ["m"], "bad_input", False),
        ("Truncated", ["m"], "truncated", False),
        ("UnsupportedSpec", ["m"], "unsupported", False),
        ("EncoderRejected", ["m"], "encoder_rejected", False),
        ("LimitExceeded", ["limit_pixels", "m"], "limit_pixels", False),
        ("VerifyFailed", ["m"], "verify_failed", False),
        ("DiskFull", ["m"], "disk_full", False),
        ("OutputStalled", ["m"], "output_stalled", True),
        ("DeviceLost", ["m"], "device_lost", True),
    ],
)
async def test_error_of_a_child_is_rebuilt(
    supervisor: Supervisor, name: str, arguments: list[str], code: str, retryable: bool
) -> None:
    with pytest.raises(PipelineError) as caught:
        await supervisor.execute(task("fail", error=name, arguments=arguments))

    assert type(caught.value).__name__ == name
    assert caught.value.to_json() == {
        "code": code,
        "message": "m",
        "stage": "encode",
        "device": None,
        "retryable": retryable,
        "facts": {"width": 16},
    }


async def test_error_of_unknown_code_keeps_code_and_retryable(supervisor: Supervisor) -> None:
    with pytest.raises(PipelineError) as caught:
        await supervisor.execute(task("own_error"))

    assert (caught.value.code, caught.value.retryable) == ("odd", True)


async def test_bug_is_internal_and_its_traceback_in_the_log(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as caught:
        await supervisor.execute(task("bug", log_path=tmp_path / "log"))

    assert caught.value.code == "internal"
    assert "IndexError: list index out of range" in (tmp_path / "log").read_text()


async def test_memory_error_is_oom(supervisor: Supervisor) -> None:
    with pytest.raises(OutOfMemory):
        await supervisor.execute(task("no_memory"))


async def test_full_disk_is_disk_full_and_names_no_path(supervisor: Supervisor) -> None:
    with pytest.raises(DiskFull) as caught:
        await supervisor.execute(task("disk_full"))

    assert "/somewhere" not in caught.value.message


async def test_file_above_its_limit_is_limit_output(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded) as caught:
        await supervisor.execute(task("write_too_much", path=str(tmp_path / "file")))

    assert caught.value.code == "limit_output"
    assert (tmp_path / "file").stat().st_size == 1000


@pytest.mark.parametrize(("do", "name"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV")])
async def test_child_that_dies_of_a_signal_is_crashed(
    supervisor: Supervisor, tmp_path: Path, do: str, name: str
) -> None:
    with pytest.raises(Crashed) as caught:
        await supervisor.execute(task(do, log_path=tmp_path / "log"))

    assert caught.value.facts["signal"] == name
    assert caught.value.facts["peak_memory_bytes"] > 1_000_000
    assert f"in {do}" in (tmp_path / "log").read_text(), "the stack of the crash is in the log"


async def test_child_killed_by_others_is_crashed_with_a_hint(supervisor: Supervisor) -> None:
    with pytest.raises(Crashed, match="perhaps for want of memory"):
        await supervisor.execute(task("kill_self"))


async def test_child_that_exits_without_a_word_is_crashed(supervisor: Supervisor) -> None:
    with pytest.raises(Crashed) as caught:
        await supervisor.execute(task("leave"))

    assert caught.value.facts["exit_code"] == 3


@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", '{"event": "result", "data": 1}', '{"event": "x", "data": {}}']
)
async def test_child_that_talks_nonsense_is_crashed(supervisor: Supervisor, text: str) -> None:
    with pytest.raises(Crashed, match="unreadable"):
        await supervisor.execute(task("talk_nonsense", text=text))


@pytest.mark.slow
async def test_nesting_that_exhausts_the_parser_is_crashed(supervisor: Supervisor) -> None:
    with pytest.raises(Crashed, match="unreadable"):
        await supervisor.execute(task("talk_nonsense", text="[" * 200_000))
