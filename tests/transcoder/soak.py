"""What a long run is judged by: the family of processes, and the decode times of everything that was published."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av


@dataclass(frozen=True)
class Member:
    """A process of the family. `memory`: resident bytes that are its own or shared."""

    name: str
    memory: int
    files: int
    threads: int


def family() -> dict[int, Member]:
    """This process and its descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    known, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in known}
        grown, known = not more <= known, known | more
    found = {}
    for pid in known:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            facts = {key: re.search(rf"^{key}:\s+(\S+)", status, re.MULTILINE) for key in ("Name", "VmRSS", "Threads")}
            name, memory, threads = (match[1] for match in facts.values() if match is not None)
            files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            found[pid] = Member(name, int(memory) * 1024, files, int(threads))
        except (FileNotFoundError, ProcessLookupError, ValueError):
            continue  # it has gone, or is about to
    return found


def engines() -> dict[int, Member]:
    """The service and its own processes: not the peers that a test brings."""
    return {pid: each for pid, each in family().items() if each.name != "ffmpeg"}


class Keeper:
    """Keeps every segment that a stream publishes, by a second name, so that deleting the first loses nothing."""

    def __init__(self, published: Path, kept: Path) -> None:
        self._published, self._kept = published, kept

    def look(self) -> None:
        for path in self._published.glob("[va]*/*"):
            target = self._kept / path.parent.name / path.name
            if path.name.startswith(".") or target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target)
            except FileNotFoundError:
                continue  # deleted in between: the numbers will tell

    def renditions(self) -> dict[str, list[Path]]:
        """Its segments by rendition, in order."""
        found = {}
        for folder in sorted(self._kept.iterdir()):
            segments = sorted(path for path in folder.iterdir() if not path.name.startswith("init-"))
            numbers = [int(path.stem) for path in segments]
            assert numbers == list(range(1, len(numbers) + 1)), f"{folder.name} has holes: {numbers}"
            found[folder.name] = segments
        return found

    def headers(self) -> dict[str, list[Path]]:
        """The init sections by rendition."""
        return {folder.name: sorted(folder.glob("init-*.mp4")) for folder in sorted(self._kept.iterdir())}


def decode_times(source: Path | io.BytesIO) -> dict[str, list[Fraction]]:
    """By kind of track, seconds."""
    found: dict[str, list[Fraction]] = {}
    with av.open(source) as container:
        for packet in container.demux():
            if packet.size:
                assert packet.dts is not None
                found.setdefault(packet.stream.type, []).append(packet.dts * packet.time_base)
    return found


def times_of_segments(segments: list[Path], headers: list[Path]) -> Iterator[dict[str, list[Fraction]]]:
    """Of each segment; those of fMP4 are read behind their one header."""
    header = headers[0].read_bytes() if headers else b""
    for path in segments:
        yield decode_times(io.BytesIO(header + path.read_bytes()))


def falls(times: list[Fraction]) -> list[tuple[float, float]]:
    """Neighbours of which the second is not later than the first."""
    return [(float(before), float(after)) for before, after in pairwise(times) if after <= before]
