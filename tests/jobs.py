"""File jobs run on generated media."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.result import Progress, Result
from pipelines.spec import FileJob
from pipelines.transcode import transcode

SMALL: dict[str, Any] = {"speed": "ultrafast", "height": 64}
"""A video rung that costs little."""
DEVICE = software_device(1)


def run_job(
    path: Path,
    folder: Path,
    *outputs: dict[str, Any],
    clip: dict[str, float] | None = None,
    limits: Limits | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **job: Any,
) -> Result:
    """Transcodes `path` into `folder`."""
    spec = FileJob.model_validate({"input": {"path": "in", "clip": clip}, "outputs": list(outputs), **job})
    folder.mkdir(exist_ok=True, parents=True)
    return transcode(
        spec, LocalFile(path, path.name), folder, device=DEVICE, limits=limits or Limits(), on_progress=on_progress
    )


def transcoded(path: Path, folder: Path, output: dict[str, Any], **job: Any) -> tuple[Path, Result]:
    """The one file that a job writes, and its result."""
    result = run_job(path, folder, output, **job)
    return folder / result.outputs[0].path, result


def warning_counts(result: Result) -> dict[str, int]:
    return {warning.code: warning.count for warning in result.warnings}


def rest_slow(values: Sequence[Any], keep: int) -> list[Any]:
    """Parameters of which the first `keep` are part of the default run, the others of the slow one."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[] if number < keep else pytest.mark.slow
        )
        for number, value in enumerate(values)
    ]
