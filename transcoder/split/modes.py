"""When jobs are cut that leave it to the service."""

from typing import Literal

SplitMode = Literal["off", "nodes", "slots"]
"""On one machine an encoder has all cores anyway, so what pays is another one: `nodes`."""
