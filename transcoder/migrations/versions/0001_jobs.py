"""Jobs, tasks, attempts, uploads, idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
DOCUMENT = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("queue", sa.String(64), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("preset", sa.String(100)),
        sa.Column("upload_id", sa.String(64)),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("started_at", MOMENT),
        sa.Column("finished_at", MOMENT),
        sa.Column("progress", sa.Float()),
        sa.Column("stats", DOCUMENT),
        sa.Column("spec", DOCUMENT, nullable=False),
        sa.Column("plan", DOCUMENT),
        sa.Column("outputs", DOCUMENT),
        sa.Column("warnings", DOCUMENT),
        sa.Column("error", DOCUMENT),
        sa.PrimaryKeyConstraint("id", name="jobs_pkey"),
    )
    op.create_index("jobs_by_tenant", "jobs", ["tenant", "id"])
    op.create_index("jobs_by_status", "jobs", ["tenant", "status", "id"])
    op.create_index("jobs_by_queue", "jobs", ["tenant", "queue", "id"])
    op.create_index("jobs_by_queue_status", "jobs", ["tenant", "queue", "status", "id"])
    op.create_index("jobs_active", "jobs", ["status", "queue"])
    op.create_index("jobs_by_upload", "jobs", ["upload_id", "status"])

    op.create_table(
        "tasks",
        sa.Column("id", sa.String(80), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("requirement", sa.String(120), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("queued_at", MOMENT, nullable=False),
        sa.Column("available_at", MOMENT, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("budget_from", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="tasks_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="tasks_job_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("tasks_by_job", "tasks", ["job_id"])
    op.create_index("tasks_pick", "tasks", ["state", "requirement", sa.text("priority DESC"), "queued_at", "id"])
    op.create_index("tasks_available", "tasks", ["state", "available_at"])

    op.create_table(
        "attempts",
        sa.Column("task_id", sa.String(80), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("task", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(100), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.Column("error", DOCUMENT),
        sa.PrimaryKeyConstraint("task_id", "number", name="attempts_pkey"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="attempts_task_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("attempts_by_job", "attempts", ["job_id"])

    op.create_table(
        "uploads",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="uploads_pkey"),
    )
    op.create_index("uploads_by_age", "uploads", ["created_at"])

    op.create_table(
        "idempotency",
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("body_sha256", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "key", name="idempotency_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="idempotency_job_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("idempotency_by_job", "idempotency", ["job_id"])


def downgrade() -> None:
    for table in ("idempotency", "uploads", "attempts", "tasks", "jobs"):
        op.drop_table(table)
