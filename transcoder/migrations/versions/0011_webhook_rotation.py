"""The secret of webhooks that a new one replaces."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("webhook_secrets", sa.Column("previous", sa.String(200)))
    op.add_column("webhook_secrets", sa.Column("previous_until", sa.DateTime(timezone=True)))


def downgrade() -> None:
    with op.batch_alter_table("webhook_secrets") as batch:
        batch.drop_column("previous")
        batch.drop_column("previous_until")
