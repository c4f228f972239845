"""Control groups: found where the kernel lets us make them, counted, and gone afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines.errors import OutOfMemory
from tests.transcoder.processes import FOLDER
from transcoder.children.cgroups import PREFIX, find_groups
from transcoder.children.sandbox import SandboxPolicy
from transcoder.children.supervise import ChildTask, Supervisor


def task(do: str, size: int) -> ChildTask:
    return ChildTask("run", {"do": do, "bytes": size}, 30.0)


@pytest.mark.slow
async def test_shared_memory_beyond_the_limit_is_oom_and_the_next_task_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if find_groups() is None:
        pytest.skip("no right to make control groups here")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    async with Supervisor(ops="sandbox_ops", sandbox=SandboxPolicy("auto", 256 << 20)) as supervisor:
        assert supervisor.layers.control_group in (1, 2)
        with pytest.raises(OutOfMemory):
            await supervisor.execute(task("share", 512 << 20))

        assert await supervisor.execute(task("share", 64 << 20)) == {"bytes": 64 << 20}
    groups = find_groups()
    assert groups is not None
    assert list(groups.parent.glob(f"{PREFIX}{os.getpid()}-*")) == []


@pytest.fixture
def process(tmp_path: Path) -> Path:
    (tmp_path / "self").mkdir()
    return tmp_path / "self"


def delegated(root: Path, *, members: str, handed_down: str = "") -> Path:
    group = root / "service"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text("cpu memory pids\n")
    (group / "cgroup.subtree_control").write_text(handed_down)
    (group / "cgroup.procs").write_text(members)
    return group


def test_group_shared_with_other_processes_is_left_alone(tmp_path: Path, process: Path) -> None:
    (process / "cgroup").write_text("0::/service\n")
    group = delegated(tmp_path / "fs", members=f"1\n{os.getpid()}\n")

    assert find_groups(tmp_path / "fs", process) is None
    assert not (group / f"{PREFIX}service").exists()
    assert (group / "cgroup.subtree_control").read_text() == ""


def test_service_alone_in_its_group_moves_below_and_hands_memory_down(tmp_path: Path, process: Path) -> None:
    """Ordinary files stand in for the kernel's, which has no version 2 with memory everywhere."""
    (process / "cgroup").write_text("0::/service\n")
    group = delegated(tmp_path / "fs", members=f"{os.getpid()}\n")

    # an ordinary folder has no memory.max: the trial says so, after the group was prepared
    assert find_groups(tmp_path / "fs", process) is None
    assert (group / f"{PREFIX}service" / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+memory"


def test_without_control_groups_there_are_none(tmp_path: Path) -> None:
    assert find_groups(tmp_path, tmp_path / "missing") is None
