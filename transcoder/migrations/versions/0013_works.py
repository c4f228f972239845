"""What jobs do, so that the same is done once; whose result a job took."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "works",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("follows", sa.String(64)),
        sa.PrimaryKeyConstraint("job_id", name="works_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="works_job_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("works_by_key", "works", ["tenant", "key"])
    op.create_index("works_by_follows", "works", ["follows"])
    op.add_column("jobs", sa.Column("reused_from", sa.String(64)))


def downgrade() -> None:
    op.drop_column("jobs", "reused_from")
    op.drop_index("works_by_follows", "works")
    op.drop_index("works_by_key", "works")
    op.drop_table("works")
