"""HLS playlists as data and as text (RFC 8216, and its successor's attributes for variants). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Literal

from pipelines.packaging.parts import LowLatency, Part
from pipelines.packaging.tags import Attributes, attributes, decimal, one_line, quoted, uri, yes_or_no

MediaType = Literal["AUDIO", "SUBTITLES"]
VideoRange = Literal["SDR", "HLG", "PQ"]


@dataclass(frozen=True)
class ByteRange:
    """A part of a file: `length` bytes from `offset` on."""

    length: int
    offset: int

    def __str__(self) -> str:
        return f"{self.length}@{self.offset}"


@dataclass(frozen=True)
class Key:
    """How what comes after it is encrypted: whole segments, or the samples in them.

    `iv`: 16 bytes; None: the sequence number. At `uri` is the key itself (`identity`), which is said of samples only:
    it takes a higher protocol version.
    """

    uri: str
    iv: bytes | None = None
    samples: bool = False

    def attributes(self) -> Attributes:
        return [
            ("METHOD", "SAMPLE-AES" if self.samples else "AES-128"),
            ("URI", quoted(uri(self.uri))),
            ("IV", None if self.iv is None else f"0x{self.iv.hex().upper()}"),
            ("KEYFORMAT", quoted("identity" if self.samples else None)),
        ]


@dataclass(frozen=True)
class InitSection:
    """What players read before the segments (fMP4)."""

    uri: str
    byte_range: ByteRange | None = None

    def attributes(self) -> Attributes:
        return [
            ("URI", quoted(uri(self.uri))),
            ("BYTERANGE", None if self.byte_range is None else quoted(str(self.byte_range))),
        ]


@dataclass(frozen=True)
class Entry:
    """One segment (or one I-frame) of a media playlist. `uri` None: it is not whole yet, its first parts are there."""

    uri: str | None
    seconds: Fraction
    byte_range: ByteRange | None = None
    discontinuity: bool = False
    """What follows does not go on from what was before: times, codecs or both start again."""
    init: InitSection | None = None
    """The init section from here on, where it is another one."""
    key: Key | None = None
    """The key from here on, where it is another one."""
    starts_at: datetime | None = None
    """Wall-clock time of its first moment."""
    title: str = ""
    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class MediaPlaylist:
    """The segments of one rendition. `target_seconds`: at least each segment's rounded length."""

    target_seconds: int
    entries: Sequence[Entry]
    init: InitSection | None = None
    key: Key | None = None
    media_sequence: int = 0
    discontinuity_sequence: int = 0
    kind: Literal["VOD", "EVENT"] | None = None
    ended: bool = False
    iframes_only: bool = False
    independent: bool = True
    """Each segment can be decoded without those before it."""
    low_latency: LowLatency | None = None

    def text(self) -> str:
        return "\n".join(["#EXTM3U", *self._head(), *self._body(), *(["#EXT-X-ENDLIST"] if self.ended else [])]) + "\n"

    @property
    def version(self) -> int:
        """The lowest protocol version that has what is used (RFC 8216, 7)."""
        inits = [self.init, *(entry.init for entry in self.entries)]
        if any(inits) and not self.iframes_only:
            return 6
        keys = [self.key, *(entry.key for entry in self.entries)]
        if any(inits) or any(key is not None and key.samples for key in keys):
            return 5
        if self.iframes_only or any(entry.byte_range for entry in self.entries):
            return 4
        return 3

    def _head(self) -> Iterator[str]:
        yield f"#EXT-X-VERSION:{self.version}"
        yield f"#EXT-X-TARGETDURATION:{self.target_seconds}"
        if self.low_latency is not None:
            yield from self.low_latency.head()
        yield f"#EXT-X-MEDIA-SEQUENCE:{self.media_sequence}"
        if self.discontinuity_sequence:
            yield f"#EXT-X-DISCONTINUITY-SEQUENCE:{self.discontinuity_sequence}"
        if self.kind is not None:
            yield f"#EXT-X-PLAYLIST-TYPE:{self.kind}"
        if self.iframes_only:
            yield "#EXT-X-I-FRAMES-ONLY"
        if self.independent:
            yield "#EXT-X-INDEPENDENT-SEGMENTS"

    def _body(self) -> Iterator[str]:
        yield from _states(self.key, self.init)
        for entry in self.entries:
            if entry.discontinuity:
                yield "#EXT-X-DISCONTINUITY"
            yield from _states(entry.key, entry.init)
            if entry.starts_at is not None:
                yield f"#EXT-X-PROGRAM-DATE-TIME:{entry.starts_at.isoformat(timespec='milliseconds')}"
            yield from (part.line() for part in entry.parts)
            if entry.uri is None:
                continue
            yield f"#EXTINF:{decimal(entry.seconds, 6)},{one_line(entry.title)}"
            if entry.byte_range is not None:
                yield f"#EXT-X-BYTERANGE:{entry.byte_range}"
            yield uri(entry.uri)
        if self.low_latency is not None and not self.ended:
            yield from self.low_latency.tail()


@dataclass(frozen=True)
class Alternative:
    """A rendition of sound or subtitles that variants name by its group."""

    kind: MediaType
    group: str
    name: str
    uri: str | None
    language: str | None = None
    default: bool = False
    autoselect: bool = True
    forced: bool = False
    channels: str | None = None
    characteristics: Sequence[str] = ()

    def line(self) -> str:
        return "#EXT-X-MEDIA:" + attributes(
            [
                ("TYPE", self.kind),
                ("GROUP-ID", quoted(self.group)),
                ("NAME", quoted(self.name)),
                ("LANGUAGE", quoted(self.language)),
                ("DEFAULT", yes_or_no(self.default)),
                # what is the default is also selected by itself
                ("AUTOSELECT", yes_or_no(self.autoselect or self.default)),
                ("FORCED", yes_or_no(self.forced) if self.kind == "SUBTITLES" else None),
                ("CHANNELS", quoted(self.channels)),
                ("CHARACTERISTICS", quoted(",".join(self.characteristics) or None)),
                ("URI", None if self.uri is None else quoted(uri(self.uri))),
            ]
        )


@dataclass(frozen=True)
class Variant:
    """One rung, with the groups that go with it. Bitrates are bit/s and those of the sound are in them."""

    uri: str
    bandwidth: int
    average_bandwidth: int | None = None
    codecs: Sequence[str] = ()
    resolution: tuple[int, int] | None = None
    frame_rate: Fraction | None = None
    video_range: VideoRange | None = None
    audio: str | None = None
    subtitles: str | None = None

    def _facts(self) -> Attributes:
        return [
            ("BANDWIDTH", str(self.bandwidth)),
            ("AVERAGE-BANDWIDTH", None if self.average_bandwidth is None else str(self.average_bandwidth)),
            ("CODECS", quoted(",".join(self.codecs) or None)),
            ("RESOLUTION", None if self.resolution is None else f"{self.resolution[0]}x{self.resolution[1]}"),
            ("VIDEO-RANGE", self.video_range),
        ]

    def lines(self) -> list[str]:
        return [
            "#EXT-X-STREAM-INF:"
            + attributes(
                [
                    *self._facts(),
                    ("FRAME-RATE", None if self.frame_rate is None else decimal(self.frame_rate, 3)),
                    ("AUDIO", quoted(self.audio)),
                    ("SUBTITLES", quoted(self.subtitles)),
                    ("CLOSED-CAPTIONS", "NONE" if self.resolution is not None else None),
                ]
            ),
            uri(self.uri),
        ]

    def iframe_line(self) -> str:
        """As a playlist of I-frames, which has neither rate nor groups."""
        return "#EXT-X-I-FRAME-STREAM-INF:" + attributes([*self._facts(), ("URI", quoted(uri(self.uri)))])


@dataclass(frozen=True)
class MultivariantPlaylist:
    """The playlist that players open."""

    variants: Sequence[Variant]
    alternatives: Sequence[Alternative] = ()
    iframes: Sequence[Variant] = field(default_factory=tuple)
    version: int = 6
    independent: bool = True

    def text(self) -> str:
        lines = ["#EXTM3U", f"#EXT-X-VERSION:{self.version}"]
        if self.independent:
            lines.append("#EXT-X-INDEPENDENT-SEGMENTS")
        lines += [alternative.line() for alternative in self.alternatives]
        for variant in self.variants:
            lines += variant.lines()
        lines += [iframes.iframe_line() for iframes in self.iframes]
        return "\n".join(lines) + "\n"


def target_seconds(durations: Sequence[Fraction]) -> int:
    """The target duration: the longest when each is rounded to whole seconds, and at least 1."""
    return max([1, *(int(seconds + Fraction(1, 2)) for seconds in durations)])


def _states(key: Key | None, init: InitSection | None) -> Iterator[str]:
    """A key holds for what comes after it: an init section that is named with it is clear."""
    if init is not None:
        yield "#EXT-X-MAP:" + attributes(init.attributes())
    if key is not None:
        yield "#EXT-X-KEY:" + attributes(key.attributes())
