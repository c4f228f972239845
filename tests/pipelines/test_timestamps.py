"""Clocks, as pure functions of the times a file says."""

from __future__ import annotations

import itertools
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pipelines.timestamps import ConstantRate, InputClock, JumpRule, PresentationOrder, rescale

FRAME = Fraction(1, 25)


class Noted:
    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, code: str, message: str, seconds: float | None) -> None:
        self.codes.append(code)


def test_a_restarted_transport_stream_goes_on_without_the_jump() -> None:
    noted = Noted()
    track = InputClock("mpegts", noted).track(FRAME)
    starts = [*range(50)] * 2
    times = [start + track.offset(start, 1) / FRAME for start in starts]
    assert times == [*range(100)]
    assert noted.codes == ["clock_jump"]


def test_tracks_that_restart_together_stay_together() -> None:
    clock = InputClock("mpegts")
    pictures, sounds = clock.track(FRAME), clock.track(Fraction(1, 50))
    first_video = [n * FRAME + pictures.offset(n, 1) for n in range(50)]
    for n in range(5, 95):
        assert sounds.offset(n, 1) == 0
    second_video = [n * FRAME + pictures.offset(n, 1) for n in range(50)]
    second_sound = [Fraction(n, 50) + sounds.offset(n, 1) for n in range(5, 95)]
    assert first_video == [n * FRAME for n in range(50)]
    assert second_sound[0] - second_video[0] == Fraction(1, 10)


def test_a_33_bit_wrap_is_no_gap() -> None:
    tick, wrap = Fraction(1, 90_000), 2**33
    track = InputClock("mpegts").track(tick)
    starts = [(wrap - 90_000 + 3600 * n) % wrap for n in range(50)]
    times = [start * tick + track.offset(start, 3600) for start in starts]
    assert all(later - earlier == FRAME for earlier, later in itertools.pairwise(times))


def test_a_long_gap_is_kept_where_clocks_do_not_restart() -> None:
    track = InputClock("matroska,webm").track(FRAME)
    assert track.offset(0, 1) == 0
    assert track.offset(2500, 1) == 0


class InSeconds:
    """The rule of `InputClock` written down in exact seconds, for all tracks of a file."""

    def __init__(self, rule: JumpRule) -> None:
        self.rule, self.newest = rule, Fraction(0)
        self.tracks: dict[int, tuple[Fraction, Fraction | None, Fraction]] = {}

    def offset(self, track: int, dts: Fraction | None, duration: Fraction) -> Fraction:
        offset, last, expected = self.tracks.setdefault(track, (self.newest, None, Fraction(0)))
        if dts is None:
            return offset
        now = dts + offset
        if last is not None:
            fell = self.rule.back is not None and now - last < -self.rule.back
            if fell or (self.rule.ahead is not None and now - expected > self.rule.ahead):
                if abs(dts + self.newest - expected) > 2 or self.newest == offset:
                    self.newest = expected - dts
                offset = self.newest
                now = expected = dts + offset
        self.tracks[track] = offset, now, now + duration if last is None else max(now + duration, expected)
        return offset


BASES = st.sampled_from([Fraction(1, 90_000), Fraction(1, 1000), Fraction(1001, 30_000), Fraction(1, 44_100)])
STEPS = st.one_of(
    st.just(Fraction(1, 25)),
    st.fractions(-1, 1, max_denominator=1000),
    st.sampled_from([Fraction(sign * n, 5) for sign in (-1, 1) for n in (1, 5, 10, 50)]),
    st.integers(-100_000, 100_000).map(Fraction),
)


@given(
    st.sampled_from(["mpegts", "matroska", "mov"]),
    st.lists(BASES, min_size=2, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), STEPS, st.integers(0, 5000), st.booleans()), max_size=60),
)
def test_counting_in_ticks_is_the_rule_in_exact_seconds(
    form: str, bases: list[Fraction], packets: list[tuple[int, Fraction, int, bool]]
) -> None:
    clock = InputClock(form)
    tracks, times = [clock.track(base) for base in bases], [0, 0]
    rule = InSeconds(clock.rule)
    for number, step, duration, timed in packets:
        base = bases[number]
        times[number] += round(step / base)
        dts = times[number] if timed else None
        asked = None if dts is None else dts * base
        assert tracks[number].offset(dts, duration) == rule.offset(number, asked, duration * base)


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
