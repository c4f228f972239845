"""Receipts of completed jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "receipts",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="receipts_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="receipts_job_id_fkey", ondelete="CASCADE"),
    )


def downgrade() -> None:
    op.drop_table("receipts")
