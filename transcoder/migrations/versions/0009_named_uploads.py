"""Uploads that jobs name beside their input."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "named_uploads",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("upload_id", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "upload_id", name="named_uploads_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="named_uploads_job_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("named_uploads_by_upload", "named_uploads", ["upload_id"])


def downgrade() -> None:
    op.drop_table("named_uploads")
