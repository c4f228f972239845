"""The service's log: what is on each line, and what is said once."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from tests.transcoder.fixtures_api import Api
from transcoder import logs
from transcoder.children.repeats import SHOWN, Repeats


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log of the process, while a test runs."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("json", "info", stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_line_is_json_with_time_level_and_origin(log: io.StringIO) -> None:
    logging.getLogger("transcoder.x").warning("free: %d ü", 3)
    (line,) = lines(log)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"message": "free: 3 ü", "level": "warning", "logger": "transcoder.x"}


def test_error_is_told_without_the_values_of_variables(log: io.StringIO) -> None:
    secret = "-".join(("pass", "word"))
    try:
        raise ValueError(f"{len(secret)} characters")
    except ValueError:
        logging.getLogger("transcoder.x").exception("it failed")
    (line,) = lines(log)
    assert line["exception"][0]["exc_value"] == "9 characters"
    assert line["exception"][0]["frames"][-1]["name"] == "test_error_is_told_without_the_values_of_variables"
    assert secret not in log.getvalue()


def test_context_is_on_each_line_and_gone_afterwards(log: io.StringIO) -> None:
    with bound_contextvars(job="j", tenant="t", attempt=2):
        logging.getLogger("transcoder.x").info("within")
    logging.getLogger("transcoder.x").info("after")
    within, after = lines(log)
    assert (within["job"], within["tenant"], within["attempt"]) == ("j", "t", 2)
    assert "job" not in after


def test_exception_is_one_line(log: io.StringIO) -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("transcoder.x").exception("it failed")
    (line,) = lines(log)
    assert line["exception"][0]["exc_type"] == "ValueError"


def test_pretty_lines_are_for_people() -> None:
    record = logging.LogRecord("transcoder.x", logging.INFO, "", 0, "listens", (), None)
    with bound_contextvars(job="j"):
        line = logs.formatter(pretty=True).format(record)
    assert "listens" in line
    assert "job=j" in line
    assert "\x1b" not in line


@pytest.mark.slow
async def test_attempt_is_told_with_its_job(log: io.StringIO, api: Api) -> None:
    job = await api.submit()
    await api.ended(job["id"])
    told = [line for line in lines(log) if line.get("job") == job["id"]]
    assert {(line["attempt"], line["tenant"], line["device"]) for line in told} == {(1, "default", "software")}
    assert [line["message"] for line in told] == ["attempt 1 starts on software", "attempt 1 completed"]


def test_message_that_repeats_is_shown_a_few_times_and_counted() -> None:
    repeats = Repeats()
    said = [f"[h264 @ 0x55{number:03x}] error while decoding" for number in range(1000)]
    assert [text for text in said if repeats.is_new(text)] == said[:SHOWN]
    assert repeats.is_new("something else")
    assert list(repeats.told()) == [f"{1000 - SHOWN} more times: [h264 @ ] error while decoding"]


def test_messages_that_differ_are_all_kept() -> None:
    repeats = Repeats()
    assert all(repeats.is_new(f"line {number}") for number in range(5000))
    assert list(repeats.told()) == []
