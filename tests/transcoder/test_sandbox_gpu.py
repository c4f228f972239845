"""What a child that works on a GPU reaches in the sandbox: its device, and nothing more than others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.transcoder.sandbox_ops import GPU_TRIES, TRIES
from tests.transcoder.test_sandbox import (
    DENIED,
    FORBIDDEN,
    WITH_BOTH,
    Place,
    confining,
    needs_landlock,
    needs_seccomp,
    place,
)

__all__ = ["place"]

pytestmark = [needs_landlock, needs_seccomp]


@pytest.fixture
def nodes(place: Place, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Two render nodes and a VA driver in a folder that the operator has named."""
    dri, drivers = place.root / "dri", place.root / "drivers"
    dri.mkdir()
    drivers.mkdir()
    for name in ("renderD128", "renderD129"):
        (dri / name).touch()
    (drivers / "own_drv_video.so").touch()
    monkeypatch.setenv("LIBVA_DRIVERS_PATH", str(drivers))
    return {
        "node": str(dri / "renderD128"),
        "other_node": str(dri / "renderD129"),
        "driver": str(drivers / "own_drv_video.so"),
    }


async def escape(place: Place, gpu: str | None, names: Any, nodes: dict[str, str]) -> dict[str, Any]:
    async with confining() as supervisor:
        task = replace(place.task("escape", names=list(names), **nodes), gpu=gpu)
        return await supervisor.execute(task)


async def test_child_on_a_gpu_reaches_that_gpu_and_no_other(place: Place, nodes: dict[str, str]) -> None:
    told = await escape(place, nodes["node"], GPU_TRIES, nodes)
    assert told == {
        "open its GPU": "done",
        "list the GPUs": "done",
        "open another GPU": DENIED,
        "read another GPU": DENIED,
        "read a driver": "done",
        "make a GPU": DENIED,
    }


async def test_child_without_a_gpu_reaches_none(place: Place, nodes: dict[str, str]) -> None:
    assert await escape(place, None, GPU_TRIES, nodes) == dict.fromkeys(GPU_TRIES, DENIED)


@pytest.mark.parametrize("display", [False, True])
async def test_a_gpu_opens_no_other_way_out(place: Place, nodes: dict[str, str], display: bool) -> None:
    told = await escape(place, ":7" if display else nodes["node"], TRIES, nodes)
    sockets = {"connect to a local socket": "done"} if display else {}
    assert told == {name: WITH_BOTH.get(name, FORBIDDEN) for name in TRIES} | sockets
    assert place.was_reached() is display


async def test_drivers_are_where_the_operator_says(place: Place, nodes: dict[str, str]) -> None:
    assert Path(nodes["driver"]).exists()
    assert await escape(place, ":7", ["read a driver", "open its GPU"], nodes) == {
        "read a driver": "done",
        "open its GPU": DENIED,
    }
