"""How long a child takes from `Supervisor.execute` to its first word.

    python benchmarks/child_start.py [--starts 30]

Children have the whole engine imported and are confined, as in the service.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import time
from pathlib import Path
from typing import Any

import transcoder.children.operations  # noqa: F401 - what a real child has imported
from transcoder.children.child import Emit
from transcoder.children.sandbox import SandboxPolicy
from transcoder.children.supervise import ChildEvent, ChildTask, Supervisor


def hello(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    emit("plan", {})
    return {}


OPS = {"run": hello}


async def measure(starts: int) -> None:
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    began = time.perf_counter()
    async with Supervisor(ops="child_start", sandbox=SandboxPolicy("auto")) as supervisor:
        print(f"fork server up: {(time.perf_counter() - began) * 1000:.0f} ms")
        first, ended = [], []
        for _ in range(starts + 1):
            began = time.perf_counter()
            said: list[float] = []

            def on_event(event: ChildEvent, said: list[float] = said) -> None:
                said.append(time.perf_counter())

            await supervisor.execute(ChildTask("run", {}, 30.0), on_event=on_event)
            first.append((said[0] - began) * 1000)
            ended.append((time.perf_counter() - began) * 1000)
    # The first one is the warm-up.
    for name, values in (("first word", first[1:]), ("result and end", ended[1:])):
        p95 = statistics.quantiles(values, n=20)[-1]
        print(f"{name}: median {statistics.median(values):.1f} ms, p95 {p95:.1f} ms, {starts} starts")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=30)
    asyncio.run(measure(parser.parse_args().starts))
