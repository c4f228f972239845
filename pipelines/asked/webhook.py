"""Where a job's owner wants to be told what became of it. The engine only carries this; the service does it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from pipelines.asked.rungs import Model

WebhookEvent = Literal["job.started", "job.completed", "job.failed", "job.cancelled"]

ENDS: tuple[WebhookEvent, ...] = ("job.completed", "job.failed", "job.cancelled")


def _once_each(events: tuple[WebhookEvent, ...]) -> tuple[WebhookEvent, ...]:
    if len(set(events)) != len(events):
        raise ValueError("an event is named once")
    return events


class Webhook(Model):
    """A URL (http or https) that events of the job are POSTed to, signed."""

    url: str = Field(min_length=1, max_length=8192)
    events: Annotated[tuple[WebhookEvent, ...], AfterValidator(_once_each)] = Field(
        ENDS, min_length=1, description="the ends of a job when not given"
    )
