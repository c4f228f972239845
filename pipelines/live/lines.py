"""Values with a beginning and an end, as the lines of JSON that outputs remember them by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any


def line_of(values: Mapping[str, Any]) -> str:
    """`start` and `end` are fractions, and are written as such."""
    times = {name: str(values[name]) for name in ("start", "end")}
    return json.dumps({**values, **times}, separators=(",", ":"))


def values_of(line: str) -> dict[str, Any]:
    """ValueError, TypeError or KeyError for a line that is not whole."""
    values = json.loads(line)
    return {**values, "start": Fraction(values["start"]), "end": Fraction(values["end"])}
