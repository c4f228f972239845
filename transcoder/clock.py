"""The wall clock: for what users read and what outlives the process. Waiting is on the loop's own clock."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)
