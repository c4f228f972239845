"""What the process layer decides without a process: lines, errors, why a child ended."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import Crashed, LimitExceeded, OutOfMemory, PipelineError
from transcoder.children.forks import Exit
from transcoder.children.joblog import Line, LineSplitter, printable
from transcoder.children.outcomes import explain_exit, rebuild_error


@given(st.lists(st.binary(max_size=30)), st.integers(1, 8))
def test_lines_do_not_depend_on_the_chunks(lines: list[bytes], chunk_bytes: int) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    text = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(max_line_bytes=20)

    chunks = [text[start : start + chunk_bytes] for start in range(0, len(text), chunk_bytes)]
    got = [line for chunk in chunks for line in splitter.feed(chunk)] + list(splitter.finish())

    assert got == [Line(line[:20], cut=len(line) > 20) for line in lines]


@given(st.binary(), st.booleans())
def test_log_text_is_one_printable_line(content: bytes, cut: bool) -> None:
    assert printable(Line(content, cut)).isprintable()


@given(st.dictionaries(st.text(), st.integers()))
def test_error_rebuilt_tells_the_same(facts: dict[str, int]) -> None:
    error = LimitExceeded("limit_work", "too much", stage="decode")
    error.facts = facts

    rebuilt = rebuild_error(error.to_json())

    assert type(rebuilt) is LimitExceeded
    assert rebuilt.to_json() == error.to_json()


@pytest.mark.parametrize("told", [{}, {"code": "limit_x", "facts": []}, {"code": None, "message": None}])
def test_error_is_rebuilt_from_whatever_is_told(told: dict[str, object]) -> None:
    assert isinstance(rebuild_error(told), PipelineError)


def test_code_of_a_type_is_not_taken_by_its_subtype() -> None:
    class Odd(Crashed):
        pass

    assert type(rebuild_error(Odd("m").to_json())) is Crashed


@pytest.mark.parametrize(
    ("end", "oom_kills", "kind", "facts"),
    [
        (Exit(-signal.SIGKILL, 5), 1, OutOfMemory, {"signal": "SIGKILL", "peak_memory_bytes": 5}),
        (Exit(-signal.SIGKILL, 5), 0, Crashed, {"signal": "SIGKILL", "peak_memory_bytes": 5}),
        (Exit(-signal.SIGSEGV, 5), 1, Crashed, {"signal": "SIGSEGV", "peak_memory_bytes": 5}),
        (Exit(-40, 5), 0, Crashed, {"signal": "signal 40", "peak_memory_bytes": 5}),
        (Exit(1, 5), 0, Crashed, {"exit_code": 1, "peak_memory_bytes": 5}),
        (None, 0, Crashed, {}),
    ],
)
def test_end_without_result_is_explained(
    end: Exit | None, oom_kills: int, kind: type[PipelineError], facts: dict[str, object]
) -> None:
    error = explain_exit(end, oom_kills=oom_kills)

    assert (type(error), error.facts) == (kind, facts)


@pytest.mark.slow
def test_fork_server_imports_no_web_framework_and_no_database() -> None:
    script = (
        "import sys, transcoder.children.forkserver, transcoder.children.operations\n"
        "print({'asyncio', 'fastapi', 'httpx2', 'sqlalchemy', 'starlette', 'uvicorn'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "set()\n"
