"""The curl examples of docs/filters.md and docs/subtitles.md work when they are pasted into a shell."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.live import live_server
from tests.media import make_video

DOCS = Path(__file__).parent.parent.parent / "docs"
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def ended(address: str) -> list[dict[str, Any]]:
    """All jobs, once they have ended: that is when a job's events do."""
    with urllib.request.urlopen(f"{address}/v1/jobs?limit=100") as answer:
        ids = [job["id"] for job in json.load(answer)["items"]]
    for each in ids:
        with urllib.request.urlopen(f"{address}/v1/jobs/{each}/events", timeout=120) as events:
            events.read()
    with urllib.request.urlopen(f"{address}/v1/jobs?limit=100") as answer:
        return list(json.load(answer)["items"])


@pytest.mark.slow
@pytest.mark.parametrize("page", ["filters.md", "subtitles.md"])
def test_examples_work_word_for_word(tmp_path: Path, page: str) -> None:
    (tmp_path / "demo").mkdir()
    make_video(tmp_path / "demo" / "source.mkv", seconds=1)  # as the demo's, and smaller
    blocks = _BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    with live_server(TRANSCODER_SOFTWARE_SLOTS="2") as server:
        script = "\n".join(["set -e", *blocks]).replace("http://127.0.0.1:8080", server.address)
        command = ["bash", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        found = ended(server.address)
    # each job is asked for by the page's own function or by a curl of its own
    assert len(found) == len(re.findall(r"^(?:filtered |curl .*/v1/jobs(?: <<END)?$)", "\n".join(blocks), re.MULTILINE))
    assert {job["status"] for job in found} == {"completed"}, [job["error"] for job in found]
