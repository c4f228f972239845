"""What outputs hold, by tenant. Those of jobs from before are counted as well."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ROWS_AT_ONCE = 500


def upgrade() -> None:
    table = op.create_table(
        "stored_outputs",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(100), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="stored_outputs_pkey"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="stored_outputs_job_id_fkey", ondelete="CASCADE"),
    )
    op.create_index("stored_outputs_by_tenant", "stored_outputs", ["tenant", "size"])
    connection = op.get_bind()
    completed = sa.text("SELECT id, tenant, outputs FROM jobs WHERE status = 'completed' AND outputs IS NOT NULL")
    rows = connection.execute(completed).all()
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        values = [{"job_id": row.id, "tenant": row.tenant, "size": _size(row.outputs)} for row in some]
        connection.execute(sa.insert(table), values)


def _size(told: Any) -> int:
    """SQLite gives JSON as text."""
    outputs = json.loads(told) if isinstance(told, str) else told
    return sum(int(file.get("size") or 0) for output in outputs or () for file in output.get("files", ()))


def downgrade() -> None:
    op.drop_table("stored_outputs")
