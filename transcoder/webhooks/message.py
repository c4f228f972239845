"""What is told: the events, their bodies, and how they are signed (the Standard Webhooks specification)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from pipelines.asked.webhook import WebhookEvent
from transcoder.jobs import Job

# the spec may name addresses with keys in them, and the plan is long: both are at the job's own address
_UNTOLD = {"spec", "plan"}


def body_of(event: WebhookEvent, job: Job, now: datetime) -> str:
    """The body, in ASCII: the bytes that are signed are the bytes that are sent."""
    told: dict[str, Any] = {
        "type": event,
        "timestamp": now.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "data": job.model_dump(mode="json", exclude=_UNTOLD),
    }
    return json.dumps(told, separators=(",", ":"))


def signed_headers(secrets: Sequence[str], message_id: str, body: str, now: datetime) -> dict[str, str]:
    """`now` is the moment of the try: receivers refuse old ones. The id is the same for all tries.

    A signature with each secret: receivers take a webhook of which one of them is right.
    """
    moment = now.astimezone(UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(Webhook(secret).sign(message_id, moment, body) for secret in secrets),
    }
