"""The table of receipts."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, PrimaryKeyConstraint, String, Table

from transcoder.tables import Document, metadata

# attempt: the one that was published · body: a Receipt as the engine of its time wrote it
receipts = Table(
    "receipts",
    metadata,
    Column("job_id", String(64), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("body", Document, nullable=False),
    PrimaryKeyConstraint("job_id"),
)
