"""Examples of pages that no other test types: pasted into a shell where they stand alone, else read as jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipelines.asked.streams import StreamJob
from tests.acceptance.live import live_server
from tests.acceptance.test_filter_docs import ended
from tests.acceptance.test_readme import blocks, run_script

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGES = ("outputs.md", "packaging.md", "quality.md", "sound.md")
TYPED_ELSEWHERE = {"api.md", "filters.md", "hardware.md", "presets.md", "queue.md", "subtitles.md"}
"""By the tests of README, filters and subtitles; hardware's are about GPUs, and have no curl."""
_BODY = re.compile(r"curl [^\n]*/v1/jobs [^\n]*-d '(\{.*?\})'", re.DOTALL)
DEMO = "transcoder demo --folder demo\n"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_examples_work_word_for_word(page: str, tmp_path: Path) -> None:
    script = "".join(blocks(f"docs/{page}"))
    with live_server(TRANSCODER_SOFTWARE_SLOTS="2") as server:
        run_script(script if DEMO in script else DEMO + script, server, tmp_path)
        jobs = ended(server.address)
    assert jobs
    assert {job["status"] for job in jobs} == {"completed"}, [job["error"] for job in jobs]


def test_no_page_has_commands_that_no_test_types() -> None:
    with_commands = {path.name for path in DOCS.glob("*.md") if blocks(f"docs/{path.name}")}
    assert with_commands == {*PAGES, *TYPED_ELSEWHERE}
    assert not any("curl" in block for block in blocks("docs/hardware.md"))


def bodies(page: str) -> list[str]:
    return _BODY.findall((DOCS / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(bodies("streams.md"))))
def test_examples_of_streams_are_jobs(number: int) -> None:
    StreamJob.model_validate_json(bodies("streams.md")[number])


def test_streams_have_examples() -> None:
    assert len(bodies("streams.md")) >= 3
