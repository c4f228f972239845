"""The receipt of a run in this process, written to a file."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path

from pipelines.opening.input import LocalFile
from pipelines.receipt.write import About, Written, write_receipt
from pipelines.result import Result
from transcoder.cli.failures import CommandError
from transcoder.cli.local import Way
from transcoder.receipts.notes import earlier_attempt


def write_local_receipt(way: Way, result: Result, file: LocalFile, folder: Path, out: Path, receipt: Path) -> None:
    """Before the file is published under the name `out`, which the receipt gives it."""
    assert way.plan is not None
    assert way.device is not None
    about = About(
        service=version("transcoder"),
        source_name=file.name,
        source_sha256=_sha256(file.path),
        earlier_attempts=tuple(map(earlier_attempt, way.earlier)),
    )
    (output,) = result.outputs
    (planned,) = way.plan.outputs
    written = folder / output.path
    named = result.model_copy(update={"outputs": (output.model_copy(update={"path": out.name, "files": ()}),)})
    plan = way.plan.model_copy(update={"outputs": (planned.model_copy(update={"path": out.name}),)})
    files = {out.name: Written(written.stat().st_size, _sha256(written))}
    body = write_receipt(plan, named, files, way.device, about).model_dump(mode="json")
    try:
        receipt.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError("file_error", f"{receipt}: {error.strerror}") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
