"""Times, bitrates and sizes as people type and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcoder.cli.values import format_bitrate, format_bytes, format_seconds, parse_bitrate, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("0.5", 0.5), ("1:30", 90), ("1:02:03.5", 3723.5), ("0:05", 5), (" 7 ", 7)]
)
def test_time_is_read(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "abc", "-1", "1:60", "1:2:3:4", "1:", ":30", "nan", "inf", "1e3"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time"):
        parse_time(text)


@given(st.integers(0, 359_999))
def test_formatted_time_reads_back(seconds: int) -> None:
    assert parse_time(format_seconds(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "rate"), [("4M", 4_000_000), ("128k", 128_000), ("2500000", 2_500_000), ("1.5m", 1_500_000)]
)
def test_bitrate_is_read(text: str, rate: int) -> None:
    assert parse_bitrate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "-4M", "4G", "4 MB"])
def test_what_is_no_bitrate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no bitrate"):
        parse_bitrate(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1234, "1.23 kB"), (999_999, "1 MB"), (5 * 10**9, "5 GB"), (None, "–")],
)
def test_sizes_read_well(count: int | None, text: str) -> None:
    assert format_bytes(count) == text


def test_bitrates_read_well() -> None:
    assert [format_bitrate(rate) for rate in (128_000, 4_500_000, None)] == ["128 kbit/s", "4.5 Mbit/s", "–"]
