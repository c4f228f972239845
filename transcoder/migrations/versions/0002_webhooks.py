"""Webhooks: deliveries, their tries, secrets. Resumable uploads."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("event", sa.String(32), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("host", sa.String(300), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("due_at", MOMENT, nullable=False),
        sa.Column("finished_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="webhooks_pkey"),
    )
    op.create_index("webhooks_by_job", "webhooks", ["job_id", "id"])
    op.create_index("webhooks_due", "webhooks", ["state", "due_at"])
    op.create_index("webhooks_by_age", "webhooks", ["finished_at"])

    op.create_table(
        "webhook_tries",
        sa.Column("webhook_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("started_at", MOMENT, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("webhook_id", "number", name="webhook_tries_pkey"),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="webhook_tries_webhook_id_fkey", ondelete="CASCADE"
        ),
    )

    op.create_table(
        "webhook_secrets",
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("secret", sa.String(200), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="webhook_secrets_pkey"),
    )

    op.create_table(
        "partial_uploads",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(64)),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("expires_at", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="partial_uploads_pkey"),
    )
    op.create_index("partial_uploads_by_tenant", "partial_uploads", ["tenant"])
    op.create_index("partial_uploads_by_age", "partial_uploads", ["expires_at"])


def downgrade() -> None:
    for table in ("partial_uploads", "webhook_secrets", "webhook_tries", "webhooks"):
        op.drop_table(table)
