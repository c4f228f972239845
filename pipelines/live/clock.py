"""The output's clock: it goes on across connections, restarts of the source's clock and restarts of the service.

Moment 0 of the clock is a moment of the wall clock (`epoch`), so that after a break time goes on where it really is.
Within a connection the source's own times count. How far they run ahead of the wall clock, or behind it, is measured
(`lead`): what playlists say of the wall clock's time is corrected by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from pipelines.timestamps import InputClock, TrackClock, Warn, ignore

BEGIN = Fraction(10)
"""The first moment of a new stream: early enough that nothing before it, such as an encoder's priming, is below 0."""
LEAD_DECAY = 0.001
"""Seconds per second that the greatest lead is taken back by: clocks drift, and networks get slower."""
RESTARTING_FORMAT = "mpegts"
"""Sources of all formats may restart their clocks: a camera that lost its power, an encoder that was replaced."""


@dataclass
class OutputClock:
    """`began` is when moment `at` was, by the monotonic clock."""

    epoch: datetime
    at: Fraction
    began: float = field(default_factory=time.monotonic)
    monotonic: Callable[[], float] = time.monotonic
    lead: float = 0.0
    newest: Fraction = Fraction(0)
    """End of the newest piece of any track."""
    _measured: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def fresh(cls, now: datetime | None = None) -> OutputClock:
        now = now or datetime.now(UTC)
        return cls(now - timedelta(seconds=float(BEGIN)), BEGIN)

    @classmethod
    def resumed(cls, epoch: datetime, newest: Fraction, now: datetime | None = None) -> OutputClock:
        """Goes on from an earlier run; never before what that one wrote, whatever became of the wall clock."""
        passed = (now or datetime.now(UTC)) - epoch
        at = max(Fraction(passed / timedelta(microseconds=1)) / 1_000_000, newest)
        return cls(epoch, at, newest=newest)

    def now(self) -> Fraction:
        """This moment on the output's clock."""
        return self.at + Fraction(round((self.monotonic() - self.began) * 1_000_000), 1_000_000)

    def seconds(self) -> float:
        """The same where microseconds are of no account."""
        return float(self.at) + (self.monotonic() - self.began)

    def wall(self, moment: Fraction) -> datetime:
        """The wall clock's time at which what is at `moment` came in."""
        return self.epoch + timedelta(seconds=float(moment) - self.lead)

    def reached(self, end: Fraction) -> None:
        with self._lock:
            self.newest = max(self.newest, end)

    def measure(self, moment: float, *, first: bool) -> float:
        """Takes down that what is at `moment` came in now; gives how far it is ahead, in seconds."""
        now = self.seconds()
        ahead = moment - now
        passed = now - self._measured
        # what came with the least delay tells how the clocks are; the rest waited somewhere
        self.lead = ahead if first else max(ahead, self.lead - LEAD_DECAY * passed)
        self._measured = now
        return ahead


class ConnectionClock:
    """Maps packet times of one connection to the output's clock."""

    def __init__(self, clock: OutputClock, warn: Warn = ignore) -> None:
        self._clock = clock
        self._input = InputClock(RESTARTING_FORMAT, warn)
        self._base: Fraction | None = None

    def track(self, time_base: Fraction) -> ConnectionTrack:
        """The clock of one track, whose packets count in `time_base`."""
        return ConnectionTrack(self, self._input.track(time_base), time_base)

    def base(self, offset: Fraction, dts: Fraction | None) -> Fraction | None:
        """The output's moment at the connection's 0; None as long as nothing has a time. The first packet tells."""
        if self._base is None and dts is not None:
            self._base = max(self._clock.now(), self._clock.newest) - (dts + offset)
        return self._base


class ConnectionTrack:
    """The shift of one track's times. What is worked out holds until the source's clock jumps."""

    def __init__(self, connection: ConnectionClock, clock: TrackClock, time_base: Fraction) -> None:
        self._connection, self._clock, self._time_base = connection, clock, time_base
        self._of: Fraction | None = None
        self._moved = 0

    def shift(self, dts: int | None, duration: int) -> int | None:
        """Ticks to add to a packet's times; None as long as nothing has a time."""
        offset = self._clock.offset(dts, duration)
        if offset is not self._of:
            base = self._connection.base(offset, None if dts is None else dts * self._time_base)
            if base is None:
                return None
            self._of, self._moved = offset, round((base + offset) / self._time_base)
        return self._moved
