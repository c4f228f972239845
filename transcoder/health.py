"""Whether the service can do its work."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Health(BaseModel):
    """`ready`: jobs are accepted and started."""

    model_config = ConfigDict(frozen=True)

    ready: bool
    database: bool
    engine: bool
