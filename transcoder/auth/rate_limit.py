"""Requests per key: a bucket of tokens for each, filled as time goes by. In memory, anew with each start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from transcoder.auth.errors import RateLimited


@dataclass(frozen=True)
class Rate:
    """`burst` requests at once, `per_second` in the long run."""

    per_second: float
    burst: int


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """As many buckets as there are keys that were used."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, key_id: str) -> None:
        """Takes one token of a key; RateLimited when there is none."""
        now = self._clock()
        bucket = self._buckets.setdefault(key_id, _Bucket(self._rate.burst, now))
        gained = (now - bucket.filled_at) * self._rate.per_second
        bucket.tokens, bucket.filled_at = min(self._rate.burst, bucket.tokens + gained), now
        if bucket.tokens < 1:
            raise RateLimited((1 - bucket.tokens) / self._rate.per_second)
        bucket.tokens -= 1
