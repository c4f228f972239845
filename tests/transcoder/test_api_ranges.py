"""Range headers and validators, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcoder.api.problems import RangeNotSatisfiable
from transcoder.api.ranges import Validators, satisfiable_ranges


@pytest.mark.slow
@given(header=st.from_regex(r"bytes=([0-9]{0,6}-[0-9]{0,6},? ?){0,5}", fullmatch=True), size=st.integers(0, 100_000))
def test_any_range_is_ignored_refused_or_within_the_file(header: str, size: int) -> None:
    try:
        ranges = satisfiable_ranges(header, size)
    except RangeNotSatisfiable:
        return
    for first, last in ranges or ():
        assert 0 <= first <= last < size


def test_date_counts_to_the_second() -> None:
    validators = Validators('"a"', 1_700_000_000.9)
    assert validators.match(None, validators.last_modified)
    assert not validators.match(None, Validators('"a"', 1_699_999_999).last_modified)
