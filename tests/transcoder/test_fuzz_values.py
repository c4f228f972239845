"""Values that anybody may send, whatever they are: read, or refused in words."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from transcoder.api.tus import InvalidHeader, name_in


@settings(max_examples=60, deadline=None, derandomize=True)
@given(details=st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40))
def test_any_details_are_read_or_refused(details: str) -> None:
    try:
        assert isinstance(name_in(details), str)
    except InvalidHeader:
        return
