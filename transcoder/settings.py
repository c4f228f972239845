"""All settings, in one class. Each is read from the environment as TRANSCODER_<NAME>."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from functools import cached_property
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from pipelines.limits import Limits
from transcoder.bucket_settings import BucketSettings
from transcoder.children.sandbox import Mode, machine_memory_bytes
from transcoder.logs import LogFormat, LogLevel
from transcoder.network.addresses import BlockedAddress, Network, TrustedHost, parse_literal, parse_url
from transcoder.queueing.costs import SlotCost
from transcoder.split.modes import SplitMode
from transcoder.webhooks.secret import is_secret


def _split(value: object) -> object:
    """Lists are written with commas: `a,b`."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _check_secret(secret: SecretStr) -> SecretStr:
    if not is_secret(secret.get_secret_value()):
        raise ValueError("a webhook secret is whsec_ and 24 to 64 bytes in base64")
    return secret


Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(_split)]
Pauses = Annotated[
    tuple[Annotated[float, Field(ge=0, le=30 * 86_400)], ...], NoDecode, BeforeValidator(_split), Field(max_length=100)
]
SigningSecret = Annotated[SecretStr, AfterValidator(_check_secret)]


def _network(value: object) -> Network:
    """A network in CIDR form, or the name of a host."""
    if not isinstance(value, str):
        return value if isinstance(value, TrustedHost) else ip_network(value)  # type: ignore[arg-type]
    with suppress(ValueError):
        return ip_network(value)
    try:
        name = parse_url(f"http://{value}").host
    except BlockedAddress:
        name = ""
    if not name or name != value.lower() or parse_literal(name) is not None:
        raise ValueError(f"{value!r} is neither a network, such as 192.168.0.0/16, nor the name of a host")
    return TrustedHost(name)


Networks = Annotated[tuple[Annotated[Network, PlainValidator(_network)], ...], NoDecode, BeforeValidator(_split)]


def _ports(value: object) -> object:
    """`1935-1945,2935`: every number of it."""
    parts = _split(value)
    if not isinstance(value, str) or not isinstance(parts, tuple):
        return parts
    numbers: list[int] = []
    for part in parts:
        first, _, last = str(part).partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or int(last or first) > 65_535:
            raise ValueError("ports are written as 1935-1945,2935")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


Ports = Annotated[
    tuple[Annotated[int, Field(ge=0, le=65_535)], ...], NoDecode, BeforeValidator(_ports), Field(max_length=2000)
]


def _origin(value: str) -> str:
    """An origin as browsers send it. Not `*`: every page of the web would be let in."""
    if re.fullmatch(r"https?://[^/*\s]+", value) is None:
        raise ValueError("an origin is written as https://name or https://name:port")
    return value.lower()


def _node(value: str) -> str:
    """A render node or an X display."""
    if not value.startswith(("/", ":")):
        raise ValueError("a device is a render node such as /dev/dri/renderD128, or an X display such as :7")
    return value


def _wish(value: object) -> object:
    return value if value in ("auto", "none") else _split(value)


DeviceNames = Annotated[
    Literal["auto", "none"] | tuple[Annotated[str, AfterValidator(_node)], ...], NoDecode, BeforeValidator(_wish)
]
Role = Literal["all", "api", "worker"]
Names = Annotated[tuple[Annotated[str, AfterValidator(str.lower)], ...], NoDecode, BeforeValidator(_split)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings, BucketSettings):
    """Settings of the service and of the command line."""

    model_config = SettingsConfigDict(env_prefix="TRANSCODER_", frozen=True, extra="ignore")

    data_dir: Path = Field(Path("data"), description="Folder for the database, uploads, scratch and outputs.")
    host: str = Field("127.0.0.1", description="Address that the API listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port that the API listens on; 0 takes a free one.")
    log_format: LogFormat = Field(
        "auto", description="Form of the service's log: json, pretty, or auto: pretty on a terminal, JSON elsewhere."
    )
    log_level: LogLevel = Field("info", description="Least of what is logged: debug, info, warning, error.")
    database_url: str | None = Field(
        None, description="SQLAlchemy URL of the database; SQLite in the data folder when not given."
    )
    role: Role = Field("all", description="What this process does: all, api (no work), worker (no API).")
    node: str = Field(
        default_factory=lambda: re.sub(r"[^a-z0-9-]", "-", socket.gethostname().lower())[:40].strip("-") or "node",
        pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$",
        description="This node's name among those that share a PostgreSQL database; the host's when not given.",
    )
    lease_seconds: float = Field(
        25.0,
        ge=1,
        le=3600,
        description="A node that is not heard of for this long loses what it runs to others.",
    )
    software_slots: int = Field(
        default_factory=lambda: max(1, (os.cpu_count() or 2) // 2),
        ge=0,
        le=1024,
        description="Tasks that run at once on the software device; half the CPU count when not given.",
    )
    devices: DeviceNames = Field(
        "auto",
        description="GPUs to use: auto for all Intel GPUs, none, or render nodes and X displays, such as "
        "/dev/dri/renderD128,:7.",
    )
    device_slots: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Tasks that run at once on each GPU; two for each of its video engines when not given, at least 2.",
    )
    hardware_root: Path = Field(Path("/"), description="Folder whose sys and dev tell which GPUs there are.")
    allowed_networks: Networks = Field(
        (),
        description="Private networks, and hosts by name, that inputs may come from and webhooks and streams go to, "
        "such as 192.168.0.0/16,minio.internal.",
    )
    listen_ports: Ports = Field(
        (), description="Ports on which streams may listen for publishers (RTMP, SRT), such as 1935-1945,2935."
    )
    listen_host: str = Field("127.0.0.1", description="Address on which they listen: one of this machine's.")
    media_roots: Paths = Field((), description="Folders that `path` inputs may come from.")
    presets_dir: Path | None = Field(None, description="Folder with presets of your own (*.toml).")
    max_upload_bytes: int = Field(256 << 30, gt=0, description="Largest upload or download, in bytes.")
    upload_idle_seconds: float = Field(
        60.0, gt=0, description="An upload or download that sends nothing for this long is ended."
    )
    upload_ttl_seconds: float = Field(
        7 * 86_400.0, gt=0, description="Uploads that no job uses are deleted after this time."
    )
    job_ttl_seconds: float | None = Field(
        None, gt=0, description="Jobs that ended this long ago are deleted with their outputs; kept when not given."
    )
    min_free_bytes: int | None = Field(
        None, ge=0, description="Uploads are refused below this free space; 1 % of the disk, at most 1 GiB, by default."
    )
    resumable_ttl_seconds: float = Field(
        86_400.0, gt=0, description="Resumable uploads that nobody goes on with are deleted after this time."
    )
    reuse: bool = Field(True, description="Take results of jobs that did the same, where jobs do not refuse it.")
    attempt_timeout_seconds: float = Field(
        24 * 3600.0, gt=0, description="Deadline of one attempt where the job names none."
    )
    stall_seconds: float = Field(60.0, gt=0, description="An attempt without progress for this long is ended.")
    gpu_stall_seconds: float = Field(
        30.0,
        gt=0,
        description="The same for attempts on a GPU, whose driver may hang; at most TRANSCODER_STALL_SECONDS.",
    )
    breaker_failures: int = Field(
        3, ge=1, le=1000, description="Jobs in a row that fail at one thing on a GPU before it is not asked for it."
    )
    canary_pause_seconds: float = Field(
        5.0, ge=0, description="Wait before a GPU that failed is tested; doubles with each test that fails."
    )
    canary_timeout_seconds: float = Field(20.0, gt=0, description="Longest time of one such test.")
    probe_timeout_seconds: float = Field(30.0, gt=0, description="Deadline of a probe or a dry-run plan.")
    hardware_wait_seconds: float = Field(
        30.0,
        ge=0,
        le=7 * 86_400,
        description="How long a job of device policy auto waits for a GPU that is busy before software will do.",
    )
    slot_cost: SlotCost = Field(
        "count", description="Slots that a job takes: count: one; work: by size, rate and codec of its outputs."
    )
    reserve_live: int = Field(0, ge=0, le=1024, description="Slots of each device that only live streams may take.")
    split: SplitMode = Field(
        "nodes",
        description="When long file jobs are cut into pieces: nodes: a CPU of another node has a free slot; "
        "slots: any other slot of a CPU is free; off: never.",
    )
    split_least_seconds: float = Field(
        300.0, ge=0, le=7 * 86_400, description="Inputs shorter than this are not cut, unless the job asks for it."
    )
    split_piece_seconds: float = Field(60.0, ge=1, le=86_400, description="Length of a piece, about.")
    max_attempts: int = Field(3, ge=1, le=20, description="Attempts that a job gets when errors are retryable.")
    retry_backoff_seconds: float = Field(2.0, ge=0, description="Wait before the second attempt; doubles after that.")
    shutdown_seconds: float = Field(
        10.0, ge=0, description="Time that running attempts get to finish when the service stops."
    )
    webhook_secret: SigningSecret | None = Field(
        None, description="Secret that webhooks are signed with, whsec_…; one for each tenant is made when not given."
    )
    webhook_retry_seconds: Pauses = Field(
        (5, 30, 120, 600, 3600, 10_800, 21_600, 43_200),
        description="Pauses between the tries to deliver a webhook; after the last one it is given up.",
    )
    webhook_timeout_seconds: float = Field(15.0, gt=0, le=300, description="Longest time of one try.")
    webhook_keep_seconds: float = Field(
        7 * 86_400.0, ge=0, description="How long the log of a webhook is kept after its end."
    )
    sandbox: Mode = Field(
        "auto",
        description="Confinement of the processes that read inputs: auto takes what the kernel has, "
        "require refuses to start without Landlock and seccomp, off does without.",
    )
    child_memory_bytes: int = Field(
        default_factory=lambda: max(1 << 30, machine_memory_bytes() * 3 // 4),
        ge=0,
        description="Memory that one such process may take; three quarters of the machine's when not given, 0: all.",
    )
    max_pixels: int = Field(Limits().max_pixels, gt=0, description="Largest frame of an input, in pixels.")
    max_streams: int = Field(Limits().max_streams, gt=0, description="Most tracks of an input.")
    max_duration_seconds: float = Field(Limits().max_duration_seconds, gt=0, description="Longest input.")
    max_frame_rate: float = Field(Limits().max_frame_rate, gt=0, description="Highest frame rate of an input.")
    max_work: float = Field(Limits().max_work, gt=0, description="Most frames × pixels that a job decodes.")
    max_output_bytes: int = Field(Limits().max_output_bytes, gt=0, description="Most bytes that a job writes.")

    insecure: bool = Field(False, description="Let everyone who reaches the service use it when there are no API keys.")
    allowed_hosts: Names = Field(
        (), description="Host names besides loopback that a service without API keys answers to, such as a proxy's."
    )
    cors_origins: Origins = Field(
        (), description="Origins whose web pages may call the API, such as https://media.example.org."
    )
    link_secret: SecretStr | None = Field(
        None, min_length=32, description="Signs links; a secret that is made in the data folder when not given."
    )
    link_max_seconds: int = Field(7 * 86_400, ge=1, description="Longest life of a signed link.")
    requests_per_second: float = Field(50.0, gt=0, description="Requests that an API key may make in the long run.")
    requests_burst: int = Field(200, ge=1, description="Requests that an API key may make at once.")
    max_connections: int = Field(512, ge=1, le=100_000, description="Most connections to the API at once.")
    max_queued_jobs: int = Field(100_000, ge=1, description="Most jobs that a tenant may have waiting.")
    max_running_jobs: int | None = Field(
        None, ge=1, le=100_000, description="Most jobs of a tenant that run at once; no limit when not given."
    )
    max_open_uploads: int = Field(64, ge=1, description="Most uploads that a tenant may send at once.")
    max_stored_bytes: int = Field(1 << 40, gt=0, description="Most bytes that a tenant's uploads may hold.")
    max_stored_output_bytes: int | None = Field(
        None, gt=0, description="Bytes of outputs from which a tenant gets no new jobs; no limit when not given."
    )

    @model_validator(mode="after")
    def _shared(self) -> Self:
        if self.role != "all" and not self.clustered:
            raise ValueError("a role needs a database that nodes share: TRANSCODER_DATABASE_URL=postgresql://…")
        return self

    @property
    def clustered(self) -> bool:
        """Whether other nodes may share the database."""
        return (self.database_url or "").startswith("postgresql")

    @cached_property
    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in Limits.model_fields})

    @property
    def effective_database_url(self) -> str:
        return self.database_url or f"sqlite+aiosqlite:///{(self.data_dir / 'transcoder.db').absolute()}"
