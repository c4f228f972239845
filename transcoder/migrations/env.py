"""Run by Alembic. The connection, in its transaction, comes from `Database.migrate`."""

from __future__ import annotations

from alembic import context

from transcoder.auth.tables import api_keys
from transcoder.gpus.speeds import speeds_table as _speeds  # noqa: F401 - likewise
from transcoder.receipts import tables as _receipts  # noqa: F401 - so that they are known
from transcoder.reuse import tables as _works  # noqa: F401 - likewise
from transcoder.split import tables as _pieces  # noqa: F401 - likewise
from transcoder.stored_outputs import stored_outputs as _outputs  # noqa: F401 - likewise
from transcoder.uploads import named as _named  # noqa: F401 - likewise

context.configure(
    connection=context.config.attributes["connection"],
    # importing one table has imported those of `transcoder.tables` too
    target_metadata=api_keys.metadata,
    # SQLite alters tables by making them anew
    render_as_batch=True,
)
context.run_migrations()
