"""What the service adds to a receipt: the input's hash, what came before, its own stages, the published files."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from pipelines.receipt.values import EarlierAttempt
from pipelines.receipt.write import About, Written, write_receipt
from pipelines.rendition import Plan
from pipelines.report import Stopwatch
from pipelines.result import Result
from transcoder.depot import PublishedFile
from transcoder.disk import HASH_CHUNK_BYTES
from transcoder.inputs import LocalInput
from transcoder.jobs import Attempt
from transcoder.queueing.admission import Claim

logger = logging.getLogger(__name__)


class Hashing:
    """The SHA-256 of an input, worked out in a thread beside the attempt. A context manager: leaving ends the reading.

    An input whose hash is known, as of uploads, is not read.
    """

    def __init__(self) -> None:
        self._known: str | None = None
        self._work: asyncio.Future[str | None] | None = None
        self._stop = threading.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        if self._work is not None:
            await asyncio.wait({self._work})

    def begin(self, source: LocalInput, *, wanted: bool) -> None:
        self._known = source.sha256
        if self._known is None and wanted:
            self._work = asyncio.ensure_future(asyncio.to_thread(_sha256, source.path, self._stop))

    async def digest(self) -> str | None:
        """None where it was not asked for, or the input can't be read any more."""
        return self._known if self._work is None else await asyncio.shield(self._work)


def _sha256(path: Path, stop: threading.Event) -> str | None:
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            while chunk := file.read(HASH_CHUNK_BYTES):
                if stop.is_set():
                    return None
                digest.update(chunk)
    except OSError:
        logger.warning("the input can't be read once more for its hash", exc_info=True)
        return None
    return digest.hexdigest()


class Notes:
    """Gathered while an attempt runs. `watch` counts the stages around the engine's."""

    def __init__(self, claim: Claim, before: Sequence[Attempt]) -> None:
        self._claim, self._before = claim, before
        self.watch = Stopwatch()

    def receipt(
        self,
        told: dict[str, Any] | None,
        result: Result,
        published: Sequence[PublishedFile],
        source: LocalInput,
        sha256: str | None,
    ) -> dict[str, Any] | None:
        """As JSON. None where the plan that the child told is not understood: then there is nothing to go by."""
        try:
            plan = None if told is None else Plan.model_validate(told)
        except ValidationError:
            plan = None
        if plan is None or not _go_together(plan, result):
            return None
        about = About(
            service=version("transcoder"),
            source_name=source.name,
            source_sha256=sha256,
            job=self._claim.job_id,
            attempt=self._claim.attempt,
            earlier_attempts=tuple(map(earlier_attempt, self._before)),
            wall_seconds=self.watch.stage_seconds,
        )
        files = {file.path: Written(file.size, file.sha256) for file in published}
        return write_receipt(plan, result, files, self._claim.device, about).model_dump(mode="json")


def _go_together(plan: Plan, result: Result) -> bool:
    planned = [(output.name, len(output.renditions)) for output in plan.outputs]
    return planned == [(output.name, len(output.renditions)) for output in result.outputs]


def earlier_attempt(attempt: Attempt) -> EarlierAttempt:
    error = attempt.error
    return EarlierAttempt(
        number=attempt.number,
        device=attempt.device,
        status=attempt.status,
        reason=attempt.reason,
        code=None if error is None else error.code,
        message=None if error is None else error.message,
    )
