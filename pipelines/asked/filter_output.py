"""What a user asks to be done to a whole output: its `filters`, of which `speed` is for all its tracks at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from pipelines.asked.filters import MAX_FILTERS, FadeFilter, FilterModel, VideoFilter, asked, once_each
from pipelines.asked.rungs import parse_ratio

SLOWEST, FASTEST = Fraction(1, 4), Fraction(4)
FINEST = 100_000
"""Largest denominator of a factor."""


def _factor(value: object) -> Fraction:
    factor = parse_ratio(value, "a factor is a number or a fraction such as 25/24")
    if not SLOWEST <= factor <= FASTEST or factor.denominator > FINEST:
        raise ValueError("a factor lies between 0.25 and 4")
    return factor


Factor = Annotated[
    Fraction,
    BeforeValidator(_factor),
    PlainSerializer(str, return_type=str),
    Field(json_schema_extra={"examples": [1.5, "25/24"]}),
]


class SpeedFilter(FilterModel):
    """How many seconds of the source are played in one: pictures, sound (its pitch kept), subtitles and chapters."""

    type: Literal["speed"] = "speed"
    factor: Factor


OutputFilter = Annotated[VideoFilter | SpeedFilter, Field(discriminator="type")]
OutputFilters = Annotated[tuple[OutputFilter, ...], Field(max_length=MAX_FILTERS), AfterValidator(once_each)]
SoundFilters = Annotated[tuple[SpeedFilter, ...], Field(max_length=1)]
"""Of outputs that have no pictures."""


def pace_of(filters: Sequence[Any]) -> Fraction:
    """Seconds of the source in a second of the output."""
    speed = asked(filters, SpeedFilter)
    return Fraction(1) if speed is None else speed.factor


def of_pictures(filters: Sequence[VideoFilter | SpeedFilter]) -> tuple[VideoFilter, ...]:
    return tuple(each for each in filters if not isinstance(each, SpeedFilter))


def sounding_fade(filters: Sequence[Any]) -> FadeFilter | None:
    """The fade of pictures that the sound goes along with."""
    fade = asked(filters, FadeFilter)
    return fade if fade is not None and fade.sound else None
