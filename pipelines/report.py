"""What the engine tells of its own work beside the result: versions, the source as it was found, time that it took."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import av

from pipelines.quality.findings import Checked, Findings
from pipelines.source import Facts, SourceInfo


class Versions(Facts):
    """Of what did the work. `libraries`: FFmpeg's, by name."""

    pyav: str
    ffmpeg: str
    libraries: dict[str, str]


class Report(Facts):
    """`stage_seconds`: wall time by stage; decoding, filters and encoders overlap within `run`."""

    versions: Versions
    source: SourceInfo
    """Without its tags and chapters."""
    stage_seconds: dict[str, float]
    cpu_seconds: float
    quality: tuple[Checked, ...] = ()
    findings: Findings = Findings()
    """What was measured before the run, and decided by it."""


def versions() -> Versions:
    libraries = {name: ".".join(map(str, number)) for name, number in av.library_versions.items()}
    named: Any = av
    return Versions(pyav=av.__version__, ffmpeg=str(named.ffmpeg_version_info), libraries=libraries)


class Stopwatch:
    """Wall time by stage, and the CPU time of this process's threads since it was made."""

    def __init__(self) -> None:
        self.stage_seconds: dict[str, float] = {}
        self.findings = Findings()
        self.quality: tuple[Checked, ...] = ()
        self._cpu = _cpu_seconds()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            passed = time.monotonic() - began
            self.stage_seconds[name] = round(self.stage_seconds.get(name, 0.0) + passed, 4)

    def report(self, source: SourceInfo) -> Report:
        return Report(
            versions=versions(),
            source=source.model_copy(update={"metadata": {}, "chapters": ()}),
            stage_seconds=self.stage_seconds,
            cpu_seconds=round(_cpu_seconds() - self._cpu, 3),
            findings=self.findings,
            quality=self.quality,
        )


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
