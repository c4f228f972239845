"""Jobs in the documents whose sources only a reader has: they are jobs, by the rules of today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.asked.streams import StreamJob

DOCS = Path(__file__).parent.parent.parent / "docs"
_BODY = re.compile(r"curl [^\n]*/v1/jobs [^\n]*-d '(\{.*?\})'", re.DOTALL)


def bodies(page: str) -> list[str]:
    return _BODY.findall((DOCS / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(bodies("streams.md"))))
def test_examples_of_streams_are_jobs(number: int) -> None:
    StreamJob.model_validate_json(bodies("streams.md")[number])


def test_streams_have_examples() -> None:
    assert len(bodies("streams.md")) >= 3
