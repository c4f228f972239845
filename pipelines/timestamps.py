"""Clocks: one continuous input clock from whatever a file says, and output times from it. Pure, in integer ticks.

Rules (facts measured on real files):
- Transport streams wrap at 33 bits and restart: a jump starts a new epoch whose offset makes time go on. Tracks that
  jump together share the epoch, so sound and picture stay together.
- Decoded video frames come out in presentation order: a time that does not rise is repaired by one tick when the frame
  is a little late and dropped when it repeats another's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Protocol

MICROSECOND = Fraction(1, 1_000_000)

SAME_EPOCH_SECONDS = Fraction(2)


@dataclass(frozen=True, slots=True)
class JumpRule:
    """How far a packet's decode time may be from where the one before it ended; farther off, it is another clock.

    `reordered`: how far a presentation time may be from the decode time; farther off, it is an error. None: any
    distance is meant.
    """

    back: Fraction | None
    ahead: Fraction | None
    reordered: Fraction | None = None


RESTARTING = JumpRule(back=Fraction(1, 5), ahead=Fraction(10), reordered=Fraction(10))
"""Clocks of broadcasts: they start anew whenever the sender does, and a file of them may be several, joined."""
SINGLE_CLOCK = JumpRule(back=Fraction(1), ahead=None)
"""One clock for the whole file: a gap is a gap, and only a great fall is a joint."""
EDITED = JumpRule(back=None, ahead=None)
"""Edit lists show parts in any order: packets before a part's start, for reference only, fall back by design."""

JUMP_RULES = {
    **dict.fromkeys(("mpegts", "mpeg", "flv", "rtsp", "hls"), RESTARTING),
    "mov": EDITED,
}
"""By FFmpeg's demuxer names; SINGLE_CLOCK elsewhere."""

Warn = Callable[[str, str, float | None], None]
"""(code, message, seconds on the input's clock)"""


def ignore(code: str, message: str, seconds: float | None) -> None:
    """A Warn that nobody listens to."""


class InputClock:
    """Maps packet times of all tracks of one file to one continuous clock, in seconds."""

    def __init__(self, format_name: str, warn: Warn = ignore) -> None:
        names = format_name.split(",")
        self.rule = next((JUMP_RULES[name] for name in names if name in JUMP_RULES), SINGLE_CLOCK)
        self.newest = Fraction(0)
        """The offset of the newest epoch."""
        self.warn = warn

    @property
    def reordered(self) -> Fraction | None:
        return self.rule.reordered

    def track(self, time_base: Fraction) -> TrackClock:
        """The clock of one track, whose packets count in `time_base`."""
        return TrackClock(self, time_base)


class TrackClock:
    """Seconds to add to the times of one track's packets. It counts in the track's own ticks: that is exact, and cheap.

    `last` and `expected`: decode time of the last packet, and of the next one, both as the file says them.
    """

    def __init__(self, clock: InputClock, time_base: Fraction) -> None:
        self._clock, self._base = clock, time_base
        rule = clock.rule
        self._back = None if rule.back is None else floor(rule.back / time_base)
        self._ahead = None if rule.ahead is None else floor(rule.ahead / time_base)
        self._offset: Fraction | None = None
        self._last: int | None = None
        self._expected = 0

    def offset(self, dts: int | None, duration: int) -> Fraction:
        """Of the packet with decode time `dts`; the same object until the clock jumps.

        Without a time it is taken to follow the packet before it: presentation times go up and down.
        """
        if self._offset is None:
            self._offset = self._clock.newest
        if dts is None:
            return self._offset
        last = self._last
        if last is None:
            self._expected = dts + duration
        elif (self._back is not None and last - dts > self._back) or (
            self._ahead is not None and dts - self._expected > self._ahead
        ):
            self._offset = self._jump(dts, self._offset)
            self._expected = dts + max(0, duration)
        else:
            self._expected = max(dts + duration, self._expected)
        self._last = dts
        return self._offset

    def _jump(self, dts: int, offset: Fraction) -> Fraction:
        """The newest epoch's offset if that makes the track go on, else that of a new one."""
        clock, time = self._clock, dts * self._base
        expected = self._expected * self._base + offset
        if abs(time + clock.newest - expected) > SAME_EPOCH_SECONDS or clock.newest == offset:
            clock.newest = expected - time
            clock.warn("clock_jump", "the input's clock jumped; time goes on without the jump", float(expected))
        return clock.newest


class PresentationOrder:
    """Chooses between pts and dts of decoded frames, then makes times rise strictly. Ticks of the track's time base.

    AVI gives pts in decode order, raw streams none: the one of the two that misbehaves less is believed.
    """

    def __init__(self, step: int, warn: Warn = ignore, seconds_per_tick: Fraction = MICROSECOND) -> None:
        self._step = max(1, step)
        self._warn, self._tick = warn, seconds_per_tick
        self._last: int | None = None
        self._last_pts: int | None = None
        self._last_dts: int | None = None
        self._faulty_pts = self._faulty_dts = 0

    def place(self, pts: int | None, dts: int | None, duration: int) -> int | None:
        """The frame's time; None when it repeats the time of another and is to be dropped."""
        time = self._believed(pts, dts)
        last = self._last
        if time is None:
            time = 0 if last is None else last + self._step
        elif last is not None and time <= last:
            if time == last and pts is not None:
                self._warn("duplicate_timestamp", "frames at the same time: one dropped", float(time * self._tick))
                return None
            self._warn("falling_timestamp", "a frame's time fell back and was repaired", float(time * self._tick))
            time = last + 1
        self._last = time
        if duration > 0:
            self._step = duration
        return time

    def _believed(self, pts: int | None, dts: int | None) -> int | None:
        if dts is not None:
            self._faulty_dts += self._last_dts is not None and dts <= self._last_dts
            self._last_dts = dts
        if pts is not None:
            self._faulty_pts += self._last_pts is not None and pts <= self._last_pts
            self._last_pts = pts
        if pts is not None and (dts is None or self._faulty_pts <= self._faulty_dts):
            return pts
        return dts if dts is not None else pts


def microseconds(seconds: float) -> Fraction:
    """The time that a plan's float stands for."""
    return Fraction(round(seconds * 1_000_000), 1_000_000)


def rescale(ticks: int, source: Fraction, target: Fraction, shift: Fraction = Fraction(0)) -> int:
    """`ticks` of `source` minus `shift` seconds, in ticks of `target`, rounded once (half up)."""
    return nearest((ticks * source - shift) / target)


def nearest(exact: Fraction) -> int:
    """Rounded half up."""
    return quotient(exact.numerator, exact.denominator)


def quotient(numerator: int, denominator: int) -> int:
    """Rounded half up, as `nearest`, where a fraction is not worth its making; `denominator` is positive."""
    return (2 * numerator + denominator) // (2 * denominator)


class Timed(Protocol):
    """What packets have."""

    pts: int | None
    dts: int | None
    duration: int | None


def lasts_until(last: Timed, end: int, first: tuple[int, int]) -> None:
    """Gives the packet decoded last, which has its own duration, times that make its track end at `end`.

    `first`: pts and dts of the first packet. MP4 says a track's length twice: as the sum of all durations, which count
    in decode order, and by the picture shown last. With B-frames and uneven times those differ, and readers believe the
    smaller one. So the packet is decoded as late as it may be where the sum would be too small, and lasts longer where
    that is not enough; it is never over after `end`.
    """
    if last.pts is None or last.dts is None:
        return
    own = max(1, last.duration or 0)
    sum_ends = end - first[0] + first[1]
    last.dts = min(max(last.dts, sum_ends - own), max(last.dts, last.pts))
    last.duration = max(own, sum_ends - last.dts)


@dataclass(slots=True)
class ConstantRate:
    """Slots of a constant frame rate: each frame fills the slots from its own to the next frame's.

    `start` is the first slot's time. Counts what it drops and repeats.
    """

    rate: Fraction
    max_repeat: int = 1_000_000
    dropped: int = 0
    repeated: int = 0
    next_slot: int = 0

    def slot(self, time: Fraction) -> int:
        """The slot nearest to `time` (seconds)."""
        return nearest(time * self.rate)

    def fill(self, until: Fraction) -> range:
        """The slots that the frame in hand takes when the next one is shown at `until`; empty: it is dropped."""
        return self.fill_to(self.slot(until))

    def fill_to(self, slot: int) -> range:
        """The same, when the next one's slot is known."""
        end = max(self.next_slot, slot)
        slots = range(self.next_slot, end)
        self.next_slot = end
        if not slots:
            self.dropped += 1
        self.repeated += max(0, len(slots) - 1)
        return slots
