"""Metrics of live streams, summed up: one series for each stream would grow without bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from pipelines.live.stats import LiveStats, StreamState


class StreamFigures:
    """Streams say counts since their process began: what they grew by since the last look is added up."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._states = Gauge("transcoder_streams", "Streams that run, by state.", ("state",), registry=registry)
        self._oldest = Gauge(
            "transcoder_stream_frame_age_seconds",
            "Age of the newest picture of the stream that has waited longest for one.",
            registry=registry,
        )
        self._reconnects = Counter(
            "transcoder_stream_reconnects", "Sources that went away and came back.", registry=registry
        )
        self._dropped = Counter(
            "transcoder_stream_dropped",
            "Frames that came too fast to be encoded, and packets that outputs were too slow for.",
            registry=registry,
        )
        self._corrupt = Counter("transcoder_stream_corrupt", "Frames that came with damage.", registry=registry)
        self._seen: dict[str, dict[Counter, int]] = {}

    def show(self, streams: Mapping[str, LiveStats]) -> None:
        for state in get_args(StreamState):
            self._states.labels(state).set(sum(stats.state == state for stats in streams.values()))
        ages = (stats.last_frame_age_seconds for stats in streams.values())
        self._oldest.set(max((age for age in ages if age is not None), default=0))
        seen = {job_id: self._counts(stats) for job_id, stats in streams.items()}
        for job_id, counts in seen.items():
            before = self._seen.get(job_id, {})
            for counter, count in counts.items():
                known = before.get(counter, 0)
                # a process that began anew counts from nothing
                counter.inc(count - known if count >= known else count)
        self._seen = seen

    def _counts(self, stats: LiveStats) -> dict[Counter, int]:
        dropped = sum(track.dropped for track in stats.tracks) + sum(output.dropped for output in stats.outputs)
        return {self._reconnects: stats.reconnects, self._dropped: dropped, self._corrupt: stats.corrupt}
