"""When two jobs do the same: source, what is asked for, and the engine are the same."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import av

import pipelines
from pipelines.spec import FileJob

_NOT_THE_RESULT: dict[str, Any] = {
    **dict.fromkeys(("preset", "queue", "priority", "ready_by", "timeout_seconds", "webhook", "metadata"), True),
    **dict.fromkeys(("input", "split", "reuse"), True),
    "device": {"max_wait_seconds"},
}
"""Fields that say who, when and how, not what. Of the input the clip and the subtitles count, besides its bytes."""


def work_key(spec: FileJob, source: str) -> str:
    """`spec` has its outputs; `source` tells its input from all others."""
    asked = spec.model_dump(mode="json", exclude=_NOT_THE_RESULT)
    clip = spec.input.clip
    facts = {
        "asked": asked,
        "clip": None if clip is None else clip.model_dump(mode="json"),
        "source": source,
        "subtitles": [each.model_dump(mode="json") for each in spec.input.subtitles],
        "engine": engine_version(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def hashed(sha256: str) -> str:
    """A source by its bytes."""
    return f"sha256:{sha256}"


def placed(path: Path) -> str:
    """A source by its place: a file that is changed has other times, of which one can't be set at will. Blocks."""
    facts = path.stat()
    return f"path:{path}:{facts.st_size}:{facts.st_mtime_ns}:{facts.st_ctime_ns}"


@cache
def engine_version() -> str:
    """Of the project's engine, to its last line, and of FFmpeg's libraries."""
    digest = hashlib.sha256()
    root = Path(pipelines.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    libraries = {name: ".".join(map(str, number)) for name, number in sorted(av.library_versions.items())}
    return f"{version('transcoder')} {digest.hexdigest()} {version('av')} {json.dumps(libraries)}"
