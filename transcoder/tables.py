"""The tables: queues, jobs, their tasks and attempts, nodes, uploads, webhooks. The same on SQLite and PostgreSQL.

A job is what users see, a task what a slot runs, an attempt one try of a task. Changes of state go through
`settlement` and `admission`, which keep the three in step within one transaction.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
)


class Moment(TypeDecorator[datetime]):
    """A moment in UTC with microseconds. SQLite keeps no zone, so it is put back when reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment = value.astimezone(UTC)
        return moment.replace(tzinfo=None) if dialect.name == "sqlite" else moment

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Document = JSON(none_as_null=True)

metadata = MetaData(
    naming_convention={
        "ix": "%(table_name)s_%(column_0_N_name)s",
        "pk": "%(table_name)s_pkey",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
    }
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(64), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("queue", String(64), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("preset", String(100)),
    Column("upload_id", String(64)),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("finished_at", Moment),
    Column("progress", Float),
    Column("stats", Document),
    Column("spec", Document, nullable=False),
    Column("plan", Document),
    Column("outputs", Document),
    Column("warnings", Document),
    Column("error", Document),
    Column("reused_from", String(64)),
    PrimaryKeyConstraint("id"),
    # ids rise with time, so each of these is a listing's filter followed by its order
    Index("jobs_by_tenant", "tenant", "id"),
    Index("jobs_by_status", "tenant", "status", "id"),
    Index("jobs_by_queue", "tenant", "queue", "id"),
    Index("jobs_by_queue_status", "tenant", "queue", "status", "id"),
    # counts of what is queued and running; whether an upload is in use
    Index("jobs_active", "status", "queue"),
    Index("jobs_by_upload", "upload_id", "status"),
)

# requirement: what a device must be (see admission) · attempt: number of the latest one, the fencing token ·
# available_at: not to be started before · budget_from: attempts up to this one are forgiven (a retry by hand) ·
# cost: slots that it asks for, `costs` on devices whose speeds are known · ready_by: deadline, the end of time without
# one · hop_at: from then on software will do
# Of the attempt that runs: pool, device, node and held (slots) say where it is, claimed_at since when, and beat_at when
# its node last said so (only where there are several nodes).
tasks = Table(
    "tasks",
    metadata,
    Column("id", String(80), nullable=False),
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("requirement", String(120), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("queued_at", Moment, nullable=False),
    Column("available_at", Moment, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("budget_from", Integer, nullable=False),
    Column("queue", String(64), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("cost", Integer, nullable=False),
    Column("costs", Document),
    Column("ready_by", Moment, nullable=False),
    Column("hop_at", Moment, nullable=False),
    Column("pool", String(16)),
    Column("device", String(200)),
    Column("node", String(64)),
    Column("held", Integer),
    Column("claimed_at", Moment),
    Column("beat_at", Moment),
    PrimaryKeyConstraint("id"),
    Index("tasks_by_job", "job_id"),
    Index("tasks_available", "state", "available_at"),
    Index("tasks_hop", "state", "hop_at"),
)
# the dispatcher's pick: filter, then order
Index(
    "tasks_pick",
    tasks.c.state,
    tasks.c.queue,
    tasks.c.requirement,
    tasks.c.priority.desc(),
    tasks.c.ready_by,
    tasks.c.queued_at,
    tasks.c.id,
)

# Resource groups. `devices`: ids of the only ones that its tasks may run on, null for all
queues = Table(
    "queues",
    metadata,
    Column("name", String(64), nullable=False),
    Column("weight", Float, nullable=False),
    Column("max_running", Integer),
    Column("max_queued", Integer),
    Column("paused", Boolean, nullable=False),
    Column("devices", Document),
    Column("default_priority", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("name"),
)

# What a queue has had of a pool (see shares). `used`: slot-seconds divided by weights · `mean_seconds`: of a task ·
# `active`: it had something to run when the pool's slots were last given away
queue_shares = Table(
    "queue_shares",
    metadata,
    Column("queue", String(64), ForeignKey("queues.name", ondelete="CASCADE"), nullable=False),
    Column("pool", String(16), nullable=False),
    Column("used", Float, nullable=False),
    Column("mean_seconds", Float),
    Column("active", Boolean, nullable=False),
    PrimaryKeyConstraint("queue", "pool"),
)

# Processes that share the database; none of them on SQLite. `beat_at` is by the database's clock
nodes = Table(
    "nodes",
    metadata,
    Column("name", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("version", String(64), nullable=False),
    Column("draining", Boolean, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("beat_at", Moment, nullable=False),
    PrimaryKeyConstraint("name"),
)

# Devices of nodes. `facts`: the device as it describes itself · `slots`, `draining`: as operators set them ·
# `condition`: as its node has it: ready, measuring, unusable, quarantined
node_devices = Table(
    "node_devices",
    metadata,
    Column("id", String(200), nullable=False),
    Column("node", String(64), ForeignKey("nodes.name", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("facts", Document, nullable=False),
    Column("slots", Integer, nullable=False),
    Column("draining", Boolean, nullable=False),
    Column("condition", String(16), nullable=False),
    PrimaryKeyConstraint("id"),
    Index("node_devices_by_node", "node"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("task_id", String(80), ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("task", Integer, nullable=False),
    Column("device", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("finished_at", Moment),
    Column("error", Document),
    PrimaryKeyConstraint("task_id", "number"),
    Index("attempts_by_job", "job_id"),
)

uploads = Table(
    "uploads",
    metadata,
    Column("id", String(64), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("name", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    PrimaryKeyConstraint("id"),
    Index("uploads_by_age", "created_at"),
    # what a tenant's uploads hold
    Index("uploads_by_tenant", "tenant", "size"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant", String(100), nullable=False),
    Column("key", String(255), nullable=False),
    Column("body_sha256", String(64), nullable=False),
    Column("job_id", String(64), nullable=False),
    PrimaryKeyConstraint("tenant", "key"),
    ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
    Index("idempotency_by_job", "job_id"),
)

# What is to be told to whom: written with the change of status that it tells of. `body` is sent as it stands.
# Without a foreign key: a job may be deleted before its end was told. `host` is what a slow receiver holds up.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String(64), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("event", String(32), nullable=False),
    Column("url", Text, nullable=False),
    Column("host", String(300), nullable=False),
    Column("body", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("due_at", Moment, nullable=False),
    Column("finished_at", Moment),
    PrimaryKeyConstraint("id"),
    Index("webhooks_by_job", "job_id", "id"),
    Index("webhooks_due", "state", "due_at"),
    Index("webhooks_by_age", "finished_at"),
)

webhook_tries = Table(
    "webhook_tries",
    metadata,
    Column("webhook_id", String(64), ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("status", Integer),
    Column("error", Text),
    PrimaryKeyConstraint("webhook_id", "number"),
)

webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    Column("tenant", String(100), nullable=False),
    Column("secret", String(200), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("previous", String(200)),
    Column("previous_until", Moment),
    PrimaryKeyConstraint("tenant"),
)

# What of a stream's spec is shown to nobody: logins in URLs, stream keys (see `transcoder.streams.secrets`)
stream_secrets = Table(
    "stream_secrets",
    metadata,
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("secrets", Document, nullable=False),
    PrimaryKeyConstraint("job_id"),
)

# Resumable uploads that are not whole yet. `offset`: bytes that are safe on the disk · `sha256`: once all are
partial_uploads = Table(
    "partial_uploads",
    metadata,
    Column("id", String(64), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("name", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("sha256", String(64)),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    PrimaryKeyConstraint("id"),
    Index("partial_uploads_by_tenant", "tenant"),
    Index("partial_uploads_by_age", "expires_at"),
)
