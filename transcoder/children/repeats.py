"""Messages that come again and again: FFmpeg says the same of each picture that is damaged."""

from __future__ import annotations

import re
from collections.abc import Iterator

SHOWN = 5
"""So many of one message are kept; the others are counted."""
KNOWN = 500
"""Different messages that are remembered. Others are new each time."""

_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Repeats:
    """Counts messages that are equal but for addresses of memory."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def is_new(self, text: str) -> bool:
        """Whether it is to be kept; counts it either way."""
        message = _ADDRESS.sub("", text)
        count = self._counts.get(message, 0) + 1
        if count > 1 or len(self._counts) < KNOWN:
            self._counts[message] = count
        return count <= SHOWN

    def told(self) -> Iterator[str]:
        """A line for each message of which some were left out."""
        for message, count in self._counts.items():
            if count > SHOWN:
                yield f"{count - SHOWN} more times: {message}"
