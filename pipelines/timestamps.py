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


@dataclass(slots=True)
class _TrackClock:
    """`last` and `expected`: decode time of the last packet, and of the next one, both on the continuous clock."""

    offset: Fraction
    last: Fraction | None = None
    expected: Fraction = Fraction(0)


class InputClock:
    """Maps packet times of all tracks of one file to one continuous clock, in seconds."""

    def __init__(self, format_name: str, warn: Warn = ignore) -> None:
        names = format_name.split(",")
        self._rule = next((JUMP_RULES[name] for name in names if name in JUMP_RULES), SINGLE_CLOCK)
        self._tracks: dict[int, _TrackClock] = {}
        self._newest = Fraction(0)
        self._warn = warn

    @property
    def reordered(self) -> Fraction | None:
        return self._rule.reordered

    def offset(self, track: int, dts: Fraction | None, duration: Fraction) -> Fraction:
        """Seconds to add to the times of a packet of `track` with decode time `dts`.

        Without one it is taken to follow the packet before it: presentation times go up and down.
        """
        clock = self._tracks.get(track)
        if clock is None:
            clock = self._tracks[track] = _TrackClock(self._newest)
        if dts is None:
            return clock.offset
        now = dts + clock.offset
        if clock.last is not None:
            rule = self._rule
            if (rule.back is not None and now - clock.last < -rule.back) or (
                rule.ahead is not None and now - clock.expected > rule.ahead
            ):
                now = self._jump(clock, dts)
        clock.expected = now + duration if clock.last is None else max(now + duration, clock.expected)
        clock.last = now
        return clock.offset

    def _jump(self, clock: _TrackClock, dts: Fraction) -> Fraction:
        """Moves the track to the newest epoch if that makes it go on, else starts one."""
        expected = clock.expected
        if abs(dts + self._newest - expected) > SAME_EPOCH_SECONDS or self._newest == clock.offset:
            self._newest = expected - dts
            self._warn("clock_jump", "the input's clock jumped; time goes on without the jump", float(expected))
        clock.offset = self._newest
        clock.expected = dts + clock.offset
        return clock.expected


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
    return (2 * exact.numerator + exact.denominator) // (2 * exact.denominator)


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
        end = max(self.next_slot, self.slot(until))
        slots = range(self.next_slot, end)
        self.next_slot = end
        if not slots:
            self.dropped += 1
        self.repeated += max(0, len(slots) - 1)
        return slots
