"""Run by Alembic. The connection, in its transaction, comes from `Database.migrate`."""

from __future__ import annotations

from alembic import context

from transcoder.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite alters tables by making them anew
    render_as_batch=True,
)
context.run_migrations()
