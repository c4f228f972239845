"""What of a stream's job is secret: taken out before the job is stored, kept beside it, shown to nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipelines.asked.streams import PushOutput, StreamJob
from transcoder.errors import ServiceError
from transcoder.streams.urls import masked, parse_stream_url
from transcoder.tables import stream_secrets

KEY_MASK = "********"
PASSPHRASE_MASK = "**********"


class MissingSecret(ServiceError):
    """A masked value was given as if it were one."""

    code = "invalid_request"
    http_status = 422


@dataclass(frozen=True)
class StreamSecrets:
    """URLs whole, by what they are of; the key and the passphrase that a publisher has to know."""

    input: str | None = None
    pushes: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    passphrase: str | None = None

    @classmethod
    def of(cls, job: StreamJob) -> Self:
        """BlockedAddress for a URL that is malformed."""
        pushes = {str(output.name): output.url for output in job.outputs if isinstance(output, PushOutput)}
        for url in (*([job.input.url] if job.input.url else []), *pushes.values()):
            parse_stream_url(url)
        listen = job.input.listen
        if listen is not None and "*" in (listen.key or ""):
            raise MissingSecret("a stream key has no asterisks: they are shown in place of one")
        key, passphrase = (None, None) if listen is None else (listen.key, listen.passphrase)
        return cls(job.input.url, pushes, key, passphrase)

    def to_json(self) -> dict[str, Any]:
        return {"input": self.input, "pushes": self.pushes, "key": self.key, "passphrase": self.passphrase}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        return cls(told.get("input"), dict(told.get("pushes") or {}), told.get("key"), told.get("passphrase"))


def without_secrets(job: StreamJob) -> StreamJob:
    """The job as it is stored and shown."""
    source = job.input
    if source.url is not None:
        source = source.model_copy(update={"url": masked(source.url)})
    if source.listen is not None:
        hidden = {
            "key": KEY_MASK if source.listen.key else None,
            "passphrase": PASSPHRASE_MASK if source.listen.passphrase else None,
        }
        source = source.model_copy(update={"listen": source.listen.model_copy(update=hidden)})
    outputs = tuple(
        output.model_copy(update={"url": masked(output.url, pushed=True)}) if isinstance(output, PushOutput) else output
        for output in job.outputs
    )
    return job.model_copy(update={"input": source, "outputs": outputs})


async def save_secrets(connection: AsyncConnection, rows: dict[str, StreamSecrets]) -> None:
    """By job, in the transaction that adds the jobs."""
    if rows:
        values = [{"job_id": job_id, "secrets": secrets.to_json()} for job_id, secrets in rows.items()]
        await connection.execute(insert(stream_secrets), values)


async def read_secrets(connection: AsyncConnection, job_id: str) -> StreamSecrets:
    found = await connection.execute(select(stream_secrets.c.secrets).where(stream_secrets.c.job_id == job_id))
    return StreamSecrets.from_json(found.scalar_one_or_none() or {})
