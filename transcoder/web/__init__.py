"""The web page: its files, as they are served. No build step makes them, and they load nothing from elsewhere.

`vendor/` has libraries as their authors publish them on npm; `vendor/vendor.json` says which, with their hashes.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
"""What is served, by the end of its name; other files of the package are not."""

PREFIX = "/assets/"
PAGES = {"/": "index.html", "/docs": "docs.html"}


@dataclass(frozen=True)
class Asset:
    """One file of the page, small enough to be kept in memory."""

    source: Traversable
    content_type: str

    @cached_property
    def content(self) -> bytes:
        return self.source.read_bytes()

    @cached_property
    def zipped(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'


def _files(folder: Traversable, prefix: str = "") -> dict[str, Traversable]:
    found: dict[str, Traversable] = {}
    for entry in folder.iterdir():
        if entry.is_dir():
            found |= _files(entry, f"{prefix}{entry.name}/")
        else:
            found[f"{prefix}{entry.name}"] = entry
    return found


def _assets() -> dict[str, Asset]:
    files = _files(resources.files(__name__))
    known = {name: TYPES.get(name.rpartition(".")[2]) for name in sorted(files)}
    served = {name: Asset(files[name], kind) for name, kind in known.items() if kind is not None}
    pages = {path: served.pop(name) for path, name in PAGES.items()}
    return pages | {f"{PREFIX}{name}": asset for name, asset in served.items()}


ASSETS = _assets()
"""By the path that each is served at."""
