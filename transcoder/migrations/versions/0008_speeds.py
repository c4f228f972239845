"""Speeds of devices, learned from attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "speeds",
        sa.Column("device", sa.String(200), nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("coder", sa.String(64), nullable=False),
        sa.Column("effort", sa.String(16), nullable=False),
        sa.Column("pixels_per_second", sa.Float(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("device", "stage", "coder", "effort", name="speeds_pkey"),
    )


def downgrade() -> None:
    op.drop_table("speeds")
