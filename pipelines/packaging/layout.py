"""How a ladder lies in its folder, and what its manifests say of each track: part of a plan."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from typing import Literal
from uuid import NAMESPACE_URL, uuid5

from pydantic import SecretStr

from pipelines.source import Facts, Ratio

Manifest = Literal["hls", "dash"]
SegmentFormat = Literal["fmp4", "ts"]
VideoRange = Literal["SDR", "HLG", "PQ"]
EncryptionMethod = Literal["aes-128", "sample-aes"]
"""Whole segments, or the samples in them."""

HLS_NAME = "index.m3u8"
IFRAMES_NAME = "iframes.m3u8"
DASH_NAME = "manifest.mpd"
MANIFEST_NAMES: dict[Manifest, str] = {"hls": HLS_NAME, "dash": DASH_NAME}

RANGES: dict[str | None, VideoRange] = {"smpte2084": "PQ", "arib-std-b67": "HLG"}
"""By transfer characteristics; all others are SDR."""


class PictureFacts(Facts):
    """Size as displayed; `frame_rate` of variable sources is their average."""

    width: int
    height: int
    frame_rate: Ratio
    video_range: VideoRange = "SDR"


class SoundFacts(Facts):
    channels: int
    sample_rate: int


class TrackLayout(Facts):
    """One rendition: its folder (relative to the output's), and the group that it is in (sound and subtitles)."""

    kind: Literal["video", "audio", "subtitle"]
    folder: str
    group: str = ""
    name: str = ""
    """What players call it; unique in its group."""
    language: str | None = None
    """By BCP 47."""
    default: bool = False
    forced: bool = False
    roles: tuple[str, ...] = ()
    picture: PictureFacts | None = None
    sound: SoundFacts | None = None


class EncryptionPlan(Facts):
    """The key is in no dump of a plan. Samples have an `iv`, and in fMP4 a `key_id`."""

    method: EncryptionMethod = "aes-128"
    key: SecretStr
    uri: str
    iv: str | None = None
    key_id: str | None = None


class Packaging(Facts):
    """`tracks` are in the order of the plan's renditions."""

    manifests: tuple[Manifest, ...]
    segment_format: SegmentFormat
    segment_seconds: float
    single_file: bool = False
    """All segments of a rendition in one file, each named by its range of bytes."""
    iframes: bool = True
    index_entries: int = 0
    """Segments that the index in the one file has room for: DASH finds them there. 0: no index."""
    encryption: EncryptionPlan | None = None
    tracks: tuple[TrackLayout, ...]

    @property
    def readable(self) -> bool:
        """Whether segments can be looked into, if only players with the key can decode what is in them."""
        return self.encryption is None or self.encryption.method == "sample-aes"

    @property
    def grid(self) -> Fraction:
        """Seconds between the times at which segments may end."""
        return Fraction(self.segment_seconds).limit_denominator(1000)


def key_id_of(uri: str) -> str:
    """The id of the key at a URI where none is given, in hexadecimal: by names (RFC 9562, version 5)."""
    return uuid5(NAMESPACE_URL, uri).hex


def unique(name: str, taken: Collection[str]) -> str:
    """`name`, or with a number behind it where that is taken."""
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
