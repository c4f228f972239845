"""API keys; what a tenant's uploads hold."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
DOCUMENT = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", DOCUMENT, nullable=False),
        sa.Column("queues", DOCUMENT),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("created_at", MOMENT, nullable=False),
        sa.Column("last_used_at", MOMENT),
        sa.Column("expires_at", MOMENT),
        sa.Column("revoked_at", MOMENT),
        sa.PrimaryKeyConstraint("id", name="api_keys_pkey"),
    )
    op.create_index("uploads_by_tenant", "uploads", ["tenant", "size"])


def downgrade() -> None:
    op.drop_index("uploads_by_tenant", "uploads")
    op.drop_table("api_keys")
