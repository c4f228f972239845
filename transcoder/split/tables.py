"""The table of pieces."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, PrimaryKeyConstraint, String, Table

from transcoder.tables import Document, metadata

# What a task beside a job's first one encodes. spec: a PieceSpec · seconds: its length · source: what file it was cut
# from (see `values.stamp_of`) · attempt, result: the one that made it, and the PieceResult; null until there is one ·
# told: the Progress that was heard last
pieces = Table(
    "pieces",
    metadata,
    Column("task_id", String(80), ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("spec", Document, nullable=False),
    Column("source", String(80), nullable=False),
    Column("attempt", Integer),
    Column("result", Document),
    Column("told", Document),
    PrimaryKeyConstraint("task_id"),
    Index("pieces_by_job", "job_id", "number"),
)
