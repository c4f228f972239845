"""Queues with their shares, nodes with their devices; what tasks need for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
DOCUMENT = sa.JSON(none_as_null=True)
_FAR = "9000-01-01 00:00:00.000000"

_FILLED = ("queue", "tenant", "kind", "cost", "ready_by", "hop_at")


def upgrade() -> None:
    op.create_table(
        "queues",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("max_running", sa.Integer()),
        sa.Column("max_queued", sa.Integer()),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("devices", DOCUMENT),
        sa.Column("default_priority", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="queues_pkey"),
    )
    op.create_table(
        "queue_shares",
        sa.Column("queue", sa.String(64), nullable=False),
        sa.Column("pool", sa.String(16), nullable=False),
        sa.Column("used", sa.Float(), nullable=False),
        sa.Column("mean_seconds", sa.Float()),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "pool", name="queue_shares_pkey"),
        sa.ForeignKeyConstraint(["queue"], ["queues.name"], name="queue_shares_queue_fkey", ondelete="CASCADE"),
    )
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("beat_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="nodes_pkey"),
    )
    op.create_table(
        "node_devices",
        sa.Column("id", sa.String(200), nullable=False),
        sa.Column("node", sa.String(64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("facts", DOCUMENT, nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("condition", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name="node_devices_pkey"),
        sa.ForeignKeyConstraint(["node"], ["nodes.name"], name="node_devices_node_fkey", ondelete="CASCADE"),
    )
    op.create_index("node_devices_by_node", "node_devices", ["node"])
    _queues_of_jobs()
    _tasks()
    with op.batch_alter_table("attempts") as attempts:
        attempts.alter_column("device", existing_type=sa.String(100), type_=sa.String(200), existing_nullable=False)


def _queues_of_jobs() -> None:
    """`default`, and whatever jobs were put into when any name would do."""
    columns = "name, weight, paused, default_priority, created_at"
    op.execute(f"INSERT INTO queues ({columns}) VALUES ('default', 1.0, FALSE, 0, CURRENT_TIMESTAMP)")
    op.execute(
        f"INSERT INTO queues ({columns}) SELECT DISTINCT queue, 1.0, FALSE, 0, CURRENT_TIMESTAMP FROM jobs"
        " WHERE queue <> 'default'"
    )


def _tasks() -> None:
    op.drop_index("tasks_pick", "tasks")
    for column in (
        sa.Column("queue", sa.String(64)),
        sa.Column("tenant", sa.String(100)),
        sa.Column("kind", sa.String(16)),
        sa.Column("cost", sa.Integer()),
        sa.Column("ready_by", MOMENT),
        sa.Column("hop_at", MOMENT),
        sa.Column("pool", sa.String(16)),
        sa.Column("device", sa.String(200)),
        sa.Column("node", sa.String(64)),
        sa.Column("held", sa.Integer()),
        sa.Column("claimed_at", MOMENT),
        sa.Column("beat_at", MOMENT),
    ):
        op.add_column("tasks", column)
    op.execute(
        "UPDATE tasks SET cost = 1, hop_at = available_at,"
        " queue = (SELECT queue FROM jobs WHERE jobs.id = tasks.job_id),"
        " tenant = (SELECT tenant FROM jobs WHERE jobs.id = tasks.job_id),"
        " kind = (SELECT kind FROM jobs WHERE jobs.id = tasks.job_id),"
        f" ready_by = '{_FAR}'"
    )
    with op.batch_alter_table("tasks") as tasks:
        for name in _FILLED:
            tasks.alter_column(name, nullable=False)
    op.create_index("tasks_hop", "tasks", ["state", "hop_at"])
    op.create_index(
        "tasks_pick",
        "tasks",
        ["state", "queue", "requirement", sa.text("priority DESC"), "ready_by", "queued_at", "id"],
    )


def downgrade() -> None:
    op.drop_index("tasks_pick", "tasks")
    op.drop_index("tasks_hop", "tasks")
    with op.batch_alter_table("tasks") as tasks:
        for name in (*_FILLED, "pool", "device", "node", "held", "claimed_at", "beat_at"):
            tasks.drop_column(name)
    op.create_index("tasks_pick", "tasks", ["state", "requirement", sa.text("priority DESC"), "queued_at", "id"])
    for table in ("node_devices", "nodes", "queue_shares", "queues"):
        op.drop_table(table)
