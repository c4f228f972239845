"""The documents' Python examples run, and the site of them is whole."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.acceptance.live import live_server, transcoder

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return _BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/client.md"])
def test_python_of_the_documents_works_word_for_word(page: str, tmp_path: Path) -> None:
    transcoder("demo", "--folder", str(tmp_path / "demo")).succeeded()
    with live_server(TRANSCODER_SOFTWARE_SLOTS="1") as server:
        for block in blocks(page):
            script = block.replace("http://127.0.0.1:8080", server.address)
            subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)
    folder = {"README.md": "from-python", "docs/client.md": "by-client"}[page]
    assert (tmp_path / "demo" / folder / "output.mp4").stat().st_size > 0


def test_every_page_is_in_the_sites_navigation() -> None:
    # other tags are those of the theme's icons, which only a build needs
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed: set[str] = set()
    for section in site["nav"]:
        for entry in section.values():
            listed |= {entry} if isinstance(entry, str) else set(entry)
    assert listed == {path.name for path in DOCS.glob("*.md")}


def test_readme_can_be_read_in_one_go() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.slow
def test_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed (group docs)")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.glob("*.html"))
    assert {"index.html", "api.html", "client.html"} <= {page.name for page in pages}
    loaded = re.compile(
        r"""<(?:script|img|iframe)[^>]+src="(https?:)?//|<link[^>]+rel="stylesheet"[^>]+href="(https?:)?//"""
    )
    for page in pages:
        assert loaded.search(page.read_text(encoding="utf-8")) is None, page.name
