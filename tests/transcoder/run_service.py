"""A service as a process of its own, to be killed: runs what is queued, says what starts, ends when nothing is left.

python -m tests.transcoder.run_service DATA_DIR stub|real SECONDS_OF_A_STUBBED_RUN
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pipelines.devices import software_device
from tests.transcoder.stubs import StubExecutor, software
from transcoder.children.watch import ChildTask
from transcoder.service import Service
from transcoder.settings import Settings


class SlowExecutor(StubExecutor):
    """A run takes its time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(on_run=said)
        self.seconds = seconds

    async def _wait(self, cancel: asyncio.Event) -> None:
        await asyncio.sleep(self.seconds)


def said(task: ChildTask) -> None:
    print("run", task.payload["folder"], flush=True)


async def main(data_dir: Path, kind: str, seconds: float) -> None:
    settings = Settings(data_dir=data_dir, shutdown_seconds=0, retry_backoff_seconds=0.01)
    executor = SlowExecutor(seconds) if kind == "stub" else None
    device = software(2) if kind == "stub" else software_device(2)
    async with Service(settings, supervisor=executor, devices=[device]) as service:
        print("ready", flush=True)
        while await service.store.active_counts():
            await asyncio.sleep(0.02)
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
