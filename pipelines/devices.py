"""Devices that can run a pipeline, and what they can do."""

from __future__ import annotations

from typing import Literal

from pipelines.source import Facts

Direction = Literal["decode", "encode"]


class Capability(Facts):
    """One thing a device does. Sizes are coded pixels; None means no limit known."""

    direction: Direction
    codec: str
    bit_depth: int = 8
    rate_controls: tuple[str, ...] = ()
    min_size: tuple[int, int] | None = None
    max_size: tuple[int, int] | None = None


class Device(Facts):
    """`kind` software: the CPU. `slots`: tasks that may run on it at once."""

    id: str
    kind: Literal["software", "vaapi", "qsv"]
    path: str | None = None
    name: str
    capabilities: tuple[Capability, ...] = ()
    slots: int = 1
