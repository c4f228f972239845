"""What runs children: `transcoder.children.supervise.Supervisor`, or a stand-in of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from transcoder.children.sandbox import Layers
from transcoder.children.watch import ChildEvent, ChildTask


class Executor(Protocol):
    @property
    def layers(self) -> Layers: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def execute(
        self,
        task: ChildTask,
        *,
        on_event: Callable[[ChildEvent], None] | None = None,
        cancel: asyncio.Event | None = None,
    ) -> dict[str, Any]: ...
