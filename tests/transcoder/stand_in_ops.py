"""The engine, with faults on demand: a job's metadata says what its child shall do instead."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.transcoder import sandbox_ops
from transcoder.children import operations
from transcoder.children.child import Emit
from transcoder.children.process import EVENTS_FD

Payload = dict[str, Any]


def _link(payload: Payload, emit: Emit) -> Payload:
    """Writes its output by way of a link that leads out of the folder."""
    (Path(payload["folder"]) / "output.mp4").symlink_to("/etc/hostname")
    return {}


def _claim(path: str) -> Any:
    """Says that its output is a file somewhere else."""

    def claim(payload: Payload, emit: Emit) -> Payload:
        output = {"name": "output", "type": "mp4", "path": path, "size": 1, "duration_seconds": 1, "renditions": []}
        told = {"event": "result", "data": {"outputs": [output]}}
        os.write(EVENTS_FD, json.dumps(told).encode() + b"\n")
        return {}

    return claim


FAULTS = {
    "abort": sandbox_ops.abort,
    "hang": sandbox_ops.hang,
    "link": _link,
    "claim upwards": _claim("../../../../uploads/secret"),
    "claim absolute": _claim("/etc/hostname"),
    "claim a folder": _claim("."),
    "claim nothing": _claim("missing.mp4"),
    "claim the planted link": _claim("planted.mp4"),
    "claim below a link": _claim("linked/hostname"),
}


def _run(payload: Payload, emit: Emit) -> Payload:
    fault = payload["spec"]["metadata"].get("fault")
    return FAULTS[fault](payload, emit) if fault else operations.OPS["run"](payload, emit)


OPS = {**operations.OPS, "run": _run}
