"""Whether a job can be ready when it is wanted, as far as that can be told before it runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from pipelines.devices import Device
from pipelines.errors import PipelineError
from pipelines.rendition import Plan
from pipelines.spec import FileJob
from transcoder.attempts.fallback import in_order
from transcoder.errors import DeadlineImpossible, ServiceError
from transcoder.queueing.requirements import pool_of

MARGIN = 1.5
"""Estimates may be so far off before a job is refused for one."""

Foretell = Callable[[FileJob, str, Sequence[Device]], Awaitable[Plan]]
"""The plan of a job with its estimate, for the first of the devices that has something to do."""

logger = logging.getLogger(__name__)


def check_not_over(ready_by: datetime | None, now: datetime) -> None:
    if ready_by is not None and ready_by <= now:
        raise DeadlineImpossible("`ready_by` is over already", ready_by=ready_by.isoformat(), now=now.isoformat())


async def check_reachable(
    spec: FileJob, tenant: str, devices: Sequence[Device], now: datetime, foretell: Foretell
) -> None:
    """DeadlineImpossible when the fastest device would need much longer if it began at once.

    Only inputs that are here are looked at; what can't be planned or estimated is let through, for the attempt to tell.
    """
    if spec.ready_by is None or spec.input.url is not None:
        return
    ready = [device for device in in_order(spec.device, devices) if getattr(device, "state", "ready") != "measuring"]
    by_pool = {pool_of(device): device for device in reversed(ready)}
    seconds = [await _seconds(spec, tenant, device, foretell) for device in by_pool.values()]
    if not seconds or None in seconds:
        return
    least = min(each for each in seconds if each is not None)
    if spec.split != "never":
        least /= max(1, sum(device.slots for device in ready))
    left = (spec.ready_by - now).total_seconds()
    if least > MARGIN * left:
        raise DeadlineImpossible(
            f"it takes about {least:.3g} s from the moment that it begins, and `ready_by` is in {left:.3g} s",
            ready_by=spec.ready_by.isoformat(),
            now=now.isoformat(),
            estimated_seconds=round(least, 1),
        )


async def _seconds(spec: FileJob, tenant: str, device: Device, foretell: Foretell) -> float | None:
    try:
        planned = await foretell(spec, tenant, [device])
    except (PipelineError, ServiceError) as error:
        logger.info("a job is taken without knowing how long it takes: %s", error)
        return None
    return None if planned.estimate is None else planned.estimate.seconds
