"""Pieces of jobs that are cut."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pieces",
        sa.Column("task_id", sa.String(80), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("source", sa.String(80), nullable=False),
        sa.Column("attempt", sa.Integer),
        sa.Column("result", sa.JSON(none_as_null=True)),
        sa.Column("told", sa.JSON(none_as_null=True)),
        sa.PrimaryKeyConstraint("task_id", name="pieces_pkey"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name="pieces_task_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("pieces_by_job", "pieces", ["job_id", "number"])


def downgrade() -> None:
    op.drop_table("pieces")
