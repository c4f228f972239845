"""Film out of interlaced video: the fields of 3:2 pulldown are matched again, and the fifth picture is left out."""

from __future__ import annotations

from fractions import Fraction

from pipelines.filters import InverseTelecine
from pipelines.steps import Step

FILM_SHARE = Fraction(4, 5)
"""Of five pictures of the video four are of the film."""
TELECINED_RATES = (Fraction(299, 10), Fraction(301, 10))
"""Between which 3:2 pulldown is: 30000/1001, as exactly as files say it."""
_ASTRAY = Fraction(3, 4)
"""Share of a picture's time."""


def inverse_telecine(step: InverseTelecine) -> list[Step]:
    """What has no match, such as video between the film, is deinterlaced."""
    order = {"top": "tff", "bottom": "bff", "auto": "auto"}[step.field_first]
    return [
        ("fieldmatch", {"order": order, "combmatch": "full"}),
        ("bwdif", {"mode": "send_frame", "parity": order, "deint": "interlaced"}),
        ("decimate", {}),
    ]


class Beat:
    """Whether pictures come one after another at a rate: `decimate` counts them, and looks at no other time."""

    def __init__(self, rate: Fraction) -> None:
        self._step = 1 / rate
        self._due: Fraction | None = None

    def lost(self, time: Fraction) -> bool:
        """Tells once of each gap, and of a drift that has become one."""
        astray = self._due is not None and abs(time - self._due) > self._step * _ASTRAY
        self._due = (time if self._due is None or astray else self._due) + self._step
        return astray
