"""The table of API keys."""

from __future__ import annotations

from sqlalchemy import Column, PrimaryKeyConstraint, String, Table, Text

from transcoder.tables import Document, Moment, metadata

# scopes: a list of words · queues: a list of names, null for all
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(32), nullable=False),
    Column("tenant", String(100), nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", Document, nullable=False),
    Column("queues", Document),
    Column("secret_sha256", String(64), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment),
    Column("expires_at", Moment),
    Column("revoked_at", Moment),
    PrimaryKeyConstraint("id"),
)
