"""What a stream has published so far: its files by output, and where one of them is on the disk."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from pipelines.asked.streams import StreamJob
from pipelines.live.outputs import places
from pipelines.live.parted import PART_NAME
from transcoder.content_types import content_type
from transcoder.jobs import JobOutput, OutputFile

MAX_LISTED = 2000
"""Of an output's files, the newest."""
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._: -]{0,120}")
_TRACK_FOLDER = re.compile(r"[va](?:[0-9]{1,2}|-copy)")
_PLAYLISTS = (".m3u8", ".mpd")


def published(folder: Path, job: StreamJob) -> tuple[JobOutput, ...]:
    """Blocks. Outputs that publish no files have none."""
    found = []
    located = places(job)
    for output in job.outputs:
        place = located.get(str(output.name))
        files = [] if place is None else _files(folder, place, output.type)
        found.append(JobOutput(name=str(output.name), type=output.type, files=tuple(files)))
    return tuple(found)


def _files(folder: Path, place: str, kind: str) -> list[OutputFile]:
    if kind == "snapshot":
        return list(_listed(folder, [folder / place]))
    top = folder / place
    if kind == "record":
        return list(_listed(folder, _entries(top)))[-MAX_LISTED:]
    playlists = [path for path in _entries(top) if path.suffix in _PLAYLISTS]
    tracks = [path for path in _entries(top) if _TRACK_FOLDER.fullmatch(path.name)]
    segments = [path for track in tracks for path in _entries(track) if not path.name.startswith(PART_NAME)]
    return list(_listed(folder, [*playlists, *segments[-MAX_LISTED:]]))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder) if _PART.fullmatch(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _listed(folder: Path, paths: list[Path]) -> Iterator[OutputFile]:
    for path in paths:
        try:
            facts = path.lstat()
        except FileNotFoundError:
            continue  # it went while we looked
        if stat.S_ISREG(facts.st_mode):
            name = path.relative_to(folder).as_posix()
            yield OutputFile(path=name, size=facts.st_size, content_type=content_type(name), sha256=None)


def is_playlist(path: str) -> bool:
    """Whether it is replaced again and again, as snapshots are."""
    return path.endswith((*_PLAYLISTS, ".jpg"))


def open_published(folder: Path, path: str) -> int | None:
    """A descriptor of a published file; None where there is none of that name. Blocks."""
    parts = path.split("/")
    if len(parts) > 3 or not all(_PART.fullmatch(part) for part in parts):
        return None
    try:
        fd = os.open(folder.joinpath(*parts), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return fd
