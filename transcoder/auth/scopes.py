"""What a key may do."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """`admin` includes the others."""

    SUBMIT = "submit"
    READ = "read"
    ADMIN = "admin"
