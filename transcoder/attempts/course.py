"""What an attempt knows of those before it, and what those after it will know of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from pipelines.devices import Verdict
from pipelines.live.planning import placed
from pipelines.rendition import Plan
from transcoder.attempts import settlement
from transcoder.attempts.fallback import ON_GPU, Place, is_software, reason_for, used_on_gpu, verdicts, way_of
from transcoder.attempts.settlement import Completed, Failed, Outcome, Ticket
from transcoder.database import Database
from transcoder.engine import DeviceState
from transcoder.gpus.quarantine import DeviceGuard
from transcoder.jobs import Attempt, ErrorInfo
from transcoder.queueing.admission import Claim

logger = logging.getLogger(__name__)


def places_of(states: Sequence[DeviceState]) -> tuple[Place, ...]:
    """Where a job may go on: devices that work, and have slots."""
    able = (state for state in states if state.state != "unusable" and state.slots > 0)
    return tuple(Place(state.id, state.kind != "software", state.state == "ready") for state in able)


@dataclass(frozen=True)
class Course:
    """Of one attempt. `gpu`: what VAAPI opens; None for the CPU."""

    before: tuple[Attempt, ...] = ()
    gpu: str | None = None
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True)
class Courses:
    """Sets attempts on their course. `states`: the devices as they are now."""

    database: Database
    guard: DeviceGuard
    states: Callable[[], Sequence[DeviceState]]

    async def begin(self, claim: Claim) -> Course:
        """Reads what happened before, and writes why the attempt is on its device where that led to it."""
        before = await self._before(claim) if claim.attempt > 1 else ()
        device = claim.device
        if device.kind == "software":
            return Course(before)
        known = (*verdicts(before), *self.guard.verdicts(device.id))
        return Course(before, device.path, tuple(verdict for verdict in known if verdict.device == device.id))

    async def _before(self, claim: Claim) -> tuple[Attempt, ...]:
        ticket = Ticket(claim.job_id, claim.task_id, claim.attempt)
        try:
            async with self.database.write() as connection:
                counted = await settlement.counted(connection, ticket)
                before = tuple(attempt for attempt in counted if attempt.number < claim.attempt)
                reason = reason_for(before, claim.device.id)
                if reason is not None:
                    await settlement.give_reason(connection, ticket, reason)
        except SQLAlchemyError:
            # without what came before it may fail the same way once more; the job is not to fail by the database
            logger.exception("what was before attempt %d of job %s can't be read", claim.attempt, claim.job_id)
            return ()
        return before

    async def end(self, claim: Claim, course: Course, outcome: Outcome, told: dict[str, Any] | None) -> Outcome:
        """Tells who guards the devices; `told` is the attempt's plan. The outcome with what it used of the GPU."""
        plan = None if course.gpu is None else _plan(claim, told)
        if isinstance(outcome, Completed):
            self.guard.completed(claim.job_id, course.before, plan)
        if not isinstance(outcome, Failed) or is_software(claim.device.id):
            return outcome
        await self.guard.failed(claim.device.id, outcome.error)
        return outcome if plan is None else Failed(_with_use(outcome.error, plan))

    def way(self, claim: Claim, course: Course, told: dict[str, Any] | None) -> str | None:
        """How the attempt went, for its reason; None on the CPU, where there is one way."""
        plan = None if course.gpu is None else _plan(claim, told)
        return None if plan is None else way_of(plan)

    @property
    def places(self) -> tuple[Place, ...]:
        return places_of(self.states())


def _plan(claim: Claim, told: dict[str, Any] | None) -> Plan | None:
    """The plan as a child told it: one that is not understood is nothing to go by."""
    try:
        if told is None:
            return None
        return placed(told) if claim.kind == "stream" else Plan.model_validate(told)
    except ValidationError:
        return None


def _with_use(error: ErrorInfo, plan: Plan) -> ErrorInfo:
    return error.model_copy(update={"facts": {**error.facts, ON_GPU: used_on_gpu(plan)}})
