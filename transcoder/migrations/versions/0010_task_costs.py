"""Slots that a task takes on devices whose speeds are known."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("costs", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    with op.batch_alter_table("tasks") as batch:
        batch.drop_column("costs")
