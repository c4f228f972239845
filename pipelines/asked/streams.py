"""What a user asks of a stream: where it comes from, what becomes of it, how hard to try. Frozen, stored as JSON.

Times are seconds, bitrates bit/s. What reads and writes of streams may name is by table: schemes, codecs, containers.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from pipelines.asked.rungs import Metadata, Model
from pipelines.asked.stream_outputs import (
    CARRIED,
    PUSH_CONTAINERS,
    CmafOutput,
    DashOutput,
    HlsOutput,
    LiveOutput,
    LiveOutputs,
    LiveRung,
    PackagedOutput,
    PushOutput,
    Reconnect,
    RecordOutput,
    SnapshotOutput,
    scheme_of,
)
from pipelines.asked.webhook import Webhook
from pipelines.spec import DevicePolicy

__all__ = [
    "CARRIED", "PUSH_CONTAINERS", "CmafOutput", "DashOutput", "HlsOutput", "Listen", "LiveOutput", "LiveRung",
    "PackagedOutput", "PushOutput", "Reconnect", "RecordOutput", "Slate", "SnapshotOutput", "StreamInput", "StreamJob",
]  # fmt: skip

INPUT_SCHEMES = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps", "udp", "rtp", "srt")


class Slate(Model):
    """What is shown while the source is away: one colour, or its last picture; with silence."""

    show: Literal["colour", "last_frame"] = "colour"
    colour: str = Field("#000000", pattern=r"^#[0-9a-fA-F]{6}$", description="RGB")
    after_seconds: float = Field(2.0, ge=0.5, le=600, description="without pictures")


class Listen(Model):
    """One publisher comes to the service. RTMP's says the key as its stream's name; SRT's knows the passphrase."""

    protocol: Literal["rtmp", "srt"] = "rtmp"
    key: str | None = Field(
        None, pattern=r"^[A-Za-z0-9_*-]{8,128}$", description="RTMP's stream key; it is not shown again"
    )
    passphrase: str | None = Field(
        None, min_length=10, max_length=79, pattern=r"^[\x21-\x7e]+$", description="encrypts SRT; not shown again"
    )

    @model_validator(mode="after")
    def _secret(self) -> Self:
        if (self.key if self.protocol == "rtmp" else self.passphrase) is None:
            raise ValueError("rtmp needs a key, srt a passphrase")
        return self


class StreamInput(Model):
    """Exactly one of `url` and `listen`."""

    url: str | None = Field(None, max_length=8192, description="rtsp, rtmp, http, udp, rtp, srt; s variants over TLS")
    listen: Listen | None = None
    transport: Literal["auto", "tcp", "udp"] = Field(
        "auto", description="of RTSP's media; auto: over TCP, and in datagrams where the server takes nothing else"
    )
    reconnect: Reconnect = Reconnect()
    connect_seconds: float = Field(10.0, ge=1, le=300, description="to connect and to find out what it is")
    read_seconds: float = Field(10.0, ge=1, le=600, description="without a byte, after which it is connected anew")
    stall_seconds: float = Field(20.0, ge=1, le=3600, description="without a picture (or sound), likewise")
    slate: Slate | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.url is None) == (self.listen is None):
            raise ValueError("give either url or listen")
        if self.url is not None and scheme_of(self.url) not in INPUT_SCHEMES:
            raise ValueError(f"an input's URL starts with one of {', '.join(INPUT_SCHEMES)}")
        if self.transport == "udp" and scheme_of(self.url or "") != "rtsp":
            raise ValueError("udp is a transport of rtsp; rtsps goes over its one encrypted connection")
        return self

    @property
    def upload(self) -> None:
        """Streams have none; jobs of files may."""
        return


class StreamJob(Model):
    """A stream in, until it is stopped; playlists, recordings and other servers out."""

    kind: Literal["stream"] = "stream"
    input: StreamInput
    outputs: LiveOutputs
    queue: str = Field("default", pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    priority: int = Field(0, ge=-1000, le=1000, description="higher starts earlier; the queue's own when not given")
    device: DevicePolicy = DevicePolicy()
    force: bool = Field(False, description="run even where it was measured that the machine can't keep up")
    max_duration_seconds: float | None = Field(None, gt=0, le=10 * 365 * 86_400, description="then it is stopped")
    start_at: AwareDatetime | None = Field(None, description="not before this moment")
    stop_at: AwareDatetime | None = Field(None, description="stopped, with its outputs finished, at this moment")
    webhook: Webhook | None = None
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.start_at is not None and self.stop_at is not None and self.stop_at <= self.start_at:
            raise ValueError("a stream stops after it starts")
        if self.input.slate is not None and any("copy" in output.rungs for output in self.outputs):
            raise ValueError("a slate needs encoded video: a copy can't show it")
        return self

    @property
    def preset(self) -> None:
        """Presets are of files."""
        return

    @property
    def ready_by(self) -> None:
        """A stream is never ready."""
        return
