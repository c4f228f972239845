"""What a running stream says of itself, once a second."""

from __future__ import annotations

from typing import Literal

from pipelines.source import Facts

StreamState = Literal["connecting", "live", "reconnecting", "stopping"]


class OutputStats(Facts):
    name: str
    type: str
    state: Literal["waiting", "live", "retrying", "failed", "ended"]
    bytes: int = 0
    dropped: int = 0
    """Packets that were thrown away because the output was too slow, or away."""
    failures: int = 0
    error: str | None = None


class TrackStats(Facts):
    """One track that is made or copied. `bitrate`: bit/s."""

    name: str
    codec: str
    encoder: str | None = None
    """Of pictures that are encoded: it says where."""
    fps: float = 0.0
    bitrate: float = 0.0
    dropped: int = 0
    """Frames that came faster than they could be encoded, or at the same time as others."""
    duplicated: int = 0


class LiveStats(Facts):
    """Rates are of the last seconds, counts since the process of the stream started."""

    state: StreamState
    beat: int = 0
    """Rises with each report."""
    frames: int = 0
    out_time: float = 0.0
    """Seconds since the stream's process started."""
    in_fps: float = 0.0
    in_bitrate: float = 0.0
    latency_seconds: float | None = None
    """From a picture's arrival until it is encoded and handed to the outputs."""
    last_frame_age_seconds: float | None = None
    connections: int = 0
    reconnects: int = 0
    slate: bool = False
    """What is sent is the slate: the source is away."""
    corrupt: int = 0
    """Frames and packets that came with damage, or could not be decoded."""
    publish_url: str | None = None
    """Where a publisher is to go, without its key; None when the stream does not listen."""
    source: str | None = None
    """What comes in, in words."""
    error: str | None = None
    """Why the source is away."""
    warnings: dict[str, int] = {}
    tracks: tuple[TrackStats, ...] = ()
    outputs: tuple[OutputStats, ...] = ()

    @property
    def fraction(self) -> None:
        """A stream has no length."""
        return

    @property
    def eta_seconds(self) -> None:
        return


class StreamResult(Facts):
    """How a stream ended, in order. `reason`: stopped, ended (by the source), suspended (with the service)."""

    reason: Literal["stopped", "ended", "suspended"]
    stats: LiveStats
