"""What is to be told, written in the transaction of what happened: neither is lost without the other."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.asked.webhook import Webhook, WebhookEvent
from transcoder.ids import new_id
from transcoder.jobs import JobStatus
from transcoder.network.addresses import parse_url
from transcoder.records import attempts_of, job_from
from transcoder.tables import jobs, webhooks
from transcoder.webhooks.message import body_of

EVENTS: dict[JobStatus, WebhookEvent] = {
    JobStatus.RUNNING: "job.started",
    JobStatus.COMPLETED: "job.completed",
    JobStatus.FAILED: "job.failed",
    JobStatus.CANCELLED: "job.cancelled",
}
"""What a job's new status tells. Being queued is no news to who queued it."""


async def record(connection: AsyncConnection, job_ids: Collection[str], status: JobStatus, now: datetime) -> None:
    """Puts down that the jobs have `status` now, for those whose owners asked to be told."""
    event = EVENTS.get(status)
    if event is None or not job_ids:
        return
    rows = (await connection.execute(select(jobs).where(jobs.c.id.in_(job_ids)))).mappings().all()
    hooks = {row["id"]: Webhook.model_validate(row["spec"]["webhook"]) for row in rows if row["spec"].get("webhook")}
    wanted = [row for row in rows if row["id"] in hooks and event in hooks[row["id"]].events]
    if not wanted:
        return
    tries = await attempts_of(connection, [row["id"] for row in wanted])
    await connection.execute(
        insert(webhooks),
        [
            {
                "id": f"msg_{new_id()}",
                "tenant": row["tenant"],
                "job_id": row["id"],
                "event": event,
                "url": hooks[row["id"]].url,
                "host": parse_url(hooks[row["id"]].url).authority,
                "body": body_of(event, job_from(row, tries.get(row["id"], ())), now),
                "state": "pending",
                "tries": 0,
                "created_at": now,
                "due_at": now,
            }
            for row in wanted
        ],
    )
