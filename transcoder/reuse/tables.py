"""The table of what jobs do."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, String, Table

from transcoder.tables import metadata

# key: the same for jobs that do the same (see `reuse.key`) · follows: the job that this one waits for; null for one
# that does the work, or has its result
works = Table(
    "works",
    metadata,
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("key", String(64), nullable=False),
    Column("follows", String(64)),
    PrimaryKeyConstraint("job_id"),
    Index("works_by_key", "tenant", "key"),
    Index("works_by_follows", "follows"),
)
