"""The page's files as they are packaged and served."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from importlib import resources
from pathlib import Path

import pytest

from tests.transcoder.fixtures_api import Api, api
from transcoder.web import ASSETS

__all__ = ["api"]

WEB = Path(str(resources.files("transcoder.web")))
VENDOR = WEB / "vendor"
IMPORT = re.compile(r"""(?:from\s*|import\s*\(?\s*)["'](\.[^"']+)["']""")
REFERENCE = re.compile(r"""(?:src|href)="(/assets/[^"]+)\"""")
LICENCES = {"MIT", "Apache-2.0", "BSD-3-Clause"}


def test_libraries_are_those_of_the_record_unchanged_with_their_licences() -> None:
    record = json.loads((VENDOR / "vendor.json").read_text(encoding="utf-8"))
    for entry in record:
        assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"], entry["file"]
        assert entry["license"] in LICENCES
        assert (VENDOR / "licenses" / f"{entry['package']}.txt").stat().st_size > 500
    code = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.suffix in (".js", ".css")}
    assert code == {entry["file"] for entry in record}


def test_everything_that_the_page_refers_to_is_served() -> None:
    for path, asset in ASSETS.items():
        text = asset.content.decode()
        if asset.content_type.startswith("text/html"):
            assert set(REFERENCE.findall(text)) <= ASSETS.keys()
            assert "http" not in text.replace("http-equiv", "")
        if path.endswith(".js") and "/vendor/" not in path:
            for target in IMPORT.findall(text):
                parts = [*path.split("/")[:-1], *target.split("/")]
                while ".." in parts:
                    at = parts.index("..")
                    parts[at - 1 : at + 1] = []
                assert "/".join(part for part in parts if part != ".") in ASSETS, (path, target)


@pytest.mark.slow
async def test_file_is_sent_whole_zipped_or_not_at_all(api: Api) -> None:
    plain = await api.http.get("/assets/main.js", headers={"Accept-Encoding": "identity"})
    assert plain.content == (WEB / "main.js").read_bytes()
    async with api.http.stream("GET", "/assets/main.js", headers={"Accept-Encoding": "gzip"}) as zipped:
        raw = b"".join([chunk async for chunk in zipped.aiter_raw()])
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content)
    again = await api.http.get("/assets/main.js", headers={"If-None-Match": plain.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.slow
async def test_other_files_of_the_package_are_not_served(api: Api) -> None:
    for path in ("/assets/__init__.py", "/assets/vendor/vendor.json", "/assets/../app.py", "/assets/index.html"):
        assert (await api.http.get(path)).status_code == 404
