"""Clocks, as pure functions of the times a file says."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pipelines.timestamps import ConstantRate, InputClock, PresentationOrder, rescale

FRAME = Fraction(1, 25)


class Noted:
    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, code: str, message: str, seconds: float | None) -> None:
        self.codes.append(code)


def test_a_restarted_transport_stream_goes_on_without_the_jump() -> None:
    noted = Noted()
    clock = InputClock("mpegts", noted)
    starts = [Fraction(n, 25) for n in range(50)] * 2
    times = [start + clock.offset(0, start, FRAME) for start in starts]
    assert times == [Fraction(n, 25) for n in range(100)]
    assert noted.codes == ["clock_jump"]


def test_tracks_that_restart_together_stay_together() -> None:
    clock = InputClock("mpegts")
    video = [Fraction(n, 25) for n in range(50)]
    sound = [Fraction(1, 10) + Fraction(n, 50) for n in range(90)]
    first = {0: [t + clock.offset(0, t, FRAME) for t in video], 1: [t + clock.offset(1, t, FRAME / 2) for t in sound]}
    second_video = [t + clock.offset(0, t, FRAME) for t in video]
    second_sound = [t + clock.offset(1, t, FRAME / 2) for t in sound]
    assert first[0] == video
    assert second_sound[0] - second_video[0] == Fraction(1, 10)


def test_a_33_bit_wrap_is_no_gap() -> None:
    wrap = Fraction(2**33, 90_000)
    clock = InputClock("mpegts")
    starts = [(wrap - 1 + Fraction(n, 25)) % wrap for n in range(50)]
    times = [start + clock.offset(0, start, FRAME) for start in starts]
    assert all(later - earlier == FRAME for earlier, later in itertools.pairwise(times))


def test_a_long_gap_is_kept_where_clocks_do_not_restart() -> None:
    clock = InputClock("matroska,webm")
    assert clock.offset(0, Fraction(0), FRAME) == 0
    assert clock.offset(0, Fraction(100), FRAME) == 0


@given(st.lists(st.one_of(st.none(), st.integers(-100, 100)), max_size=60))
def test_presentation_times_rise_strictly_whatever_comes(stamps: list[int | None]) -> None:
    order = PresentationOrder(step=10)
    placed = [time for time in (order.place(stamp, None, 10) for stamp in stamps) if time is not None]
    assert all(later > earlier for earlier, later in itertools.pairwise(placed))


def test_frames_without_times_follow_each_other_by_the_step() -> None:
    order = PresentationOrder(step=40)
    assert [order.place(None, None, 0) for _ in range(4)] == [0, 40, 80, 120]


def test_decode_times_are_believed_where_presentation_times_misbehave() -> None:
    order = PresentationOrder(step=1)
    stamps = [(0, 0), (4, 1), (2, 2), (1, 3), (3, 4), (8, 5), (6, 6), (5, 7)]
    placed = [order.place(pts, dts, 1) for pts, dts in stamps]
    assert [time for time in placed if time is not None] == sorted({time for time in placed if time is not None})
    assert 7 <= (placed[-1] or 0) <= 10


@given(st.integers(-(10**9), 10**9), st.integers(1, 90_000), st.integers(1, 90_000))
def test_rescaled_times_stay_within_half_a_tick(ticks: int, source: int, target: int) -> None:
    result = rescale(ticks, Fraction(1, source), Fraction(1, target))
    assert abs(Fraction(result, target) - Fraction(ticks, source)) <= Fraction(1, 2 * target)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=80), st.sampled_from([24, 25, 30, Fraction(30000, 1001), 60]))
def test_constant_rate_fills_every_slot_once(gaps: list[int], rate: int | Fraction) -> None:
    constant = ConstantRate(Fraction(rate))
    slots: list[int] = []
    now = Fraction(0)
    for gap in gaps:
        now += Fraction(gap, 1000)
        slots += constant.fill(now)
    assert slots == list(range(len(slots)))
    assert abs(len(slots) - now * rate) <= Fraction(1, 2)
    assert len(gaps) - constant.dropped + constant.repeated == len(slots)
