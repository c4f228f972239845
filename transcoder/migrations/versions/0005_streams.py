"""Secrets of streams, apart from their specs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stream_secrets",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("secrets", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="stream_secrets_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="stream_secrets_job_id_fkey", ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_table("stream_secrets")
