"""Damaged media through children: no crash, no hang, every end has a code that is documented.

FUZZ_MUTANTS (150) says how many files are tried in all, FUZZ_SEED (1) which ones. What fails is left in FUZZ_KEEP.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from pipelines.devices import software_device
from pipelines.errors import PipelineError
from pipelines.limits import Limits
from pipelines.spec import FileJob
from tests.transcoder.mutants import MAKE, mutants
from transcoder.children.sandbox import SandboxPolicy
from transcoder.children.supervise import ChildTask, Supervisor

pytestmark = pytest.mark.asyncio(loop_scope="module")

MUTANTS = int(os.environ.get("FUZZ_MUTANTS", "150"))
SEED = os.environ.get("FUZZ_SEED", "1")
KEEP = os.environ.get("FUZZ_KEEP")
AT_ONCE = 2
DEADLINE_SECONDS = 20.0
LATE_SECONDS = 3.0
LIMITS = Limits(max_pixels=1 << 22, max_duration_seconds=600, max_work=1e9, max_output_bytes=50 << 20)
ENDS = frozenset(
    {
        *(
            "completed",
            "bad_input",
            "truncated",
            "no_frames",
            "unsupported",
            "output_failed",
            "encoder_rejected",
            "oom",
        ),
        *("limit_pixels", "limit_streams", "limit_duration", "limit_fps", "limit_work", "limit_output"),
    }
)
"""Not among them: `internal`, `crashed`, `verify_failed`, `stalled`, `timeout`: faults of ours or of the libraries."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def supervisor() -> AsyncIterator[Supervisor]:
    async with Supervisor(sandbox=SandboxPolicy("auto", 2 << 30)) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKE)
async def test_damaged_files_end_in_time_with_a_code(supervisor: Supervisor, tmp_path: Path, kind: str) -> None:
    original = MAKE[kind](tmp_path).read_bytes()
    numbered: Iterator[tuple[int, bytes]] = enumerate(mutants(original, -(-MUTANTS // len(MAKE)), f"{SEED}-{kind}"))
    ends: dict[int, str] = {}

    async def work() -> None:
        for number, data in numbered:
            ends[number] = await _end_of(supervisor, tmp_path, f"{kind}-{number}", data)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))

    assert {number: end for number, end in ends.items() if end not in ENDS} == {}, Counter(ends.values())
    assert await _end_of(supervisor, tmp_path, "sound", original) == "completed"


async def _end_of(supervisor: Supervisor, root: Path, name: str, data: bytes) -> str:
    path, folder = root / name, root / f"{name}-out"
    path.write_bytes(data)
    folder.mkdir()
    began = time.monotonic()
    try:
        await supervisor.execute(_task(path, folder))
    except PipelineError as error:
        end = error.code
    else:
        end = "completed"
    if time.monotonic() - began > DEADLINE_SECONDS + LATE_SECONDS:
        end = "late"
    if end not in ENDS and KEEP:
        (Path(KEEP) / name).write_bytes(data)
    return end


def _task(path: Path, folder: Path) -> ChildTask:
    outputs = [{"type": "mkv", "video": {"height": 32, "speed": "ultrafast"}, "audio": {"codec": "opus"}}]
    spec = FileJob.model_validate({"input": {"path": "in"}, "outputs": outputs}).model_dump(mode="json")
    payload = {
        "path": str(path),
        "name": path.name,
        "limits": LIMITS.model_dump(mode="json"),
        "spec": spec,
        "folder": str(folder),
        "device": software_device(1).model_dump(mode="json"),
    }
    return ChildTask("run", payload, DEADLINE_SECONDS, 10.0, readable=(path,), writable=(folder,))
