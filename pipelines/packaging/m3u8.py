"""HLS playlists as data and as text (RFC 8216, and its successor's attributes for variants). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Literal
from urllib.parse import quote

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
    """How the segments after it are encrypted: AES-128 on whole segments. `iv`: 16 bytes; None: the sequence number."""

    uri: str
    iv: bytes | None = None

    def attributes(self) -> Attributes:
        return [
            ("METHOD", "AES-128"),
            ("URI", quoted(uri(self.uri))),
            ("IV", None if self.iv is None else f"0x{self.iv.hex().upper()}"),
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
    """One segment (or one I-frame) of a media playlist."""

    uri: str
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

    def text(self) -> str:
        return "\n".join(["#EXTM3U", *self._head(), *self._body(), *(["#EXT-X-ENDLIST"] if self.ended else [])]) + "\n"

    @property
    def version(self) -> int:
        """The lowest protocol version that has what is used (RFC 8216, 7)."""
        inits = [self.init, *(entry.init for entry in self.entries)]
        if any(inits):
            return 5 if self.iframes_only else 6
        if self.iframes_only or any(entry.byte_range for entry in self.entries):
            return 4
        return 3

    def _head(self) -> Iterator[str]:
        yield f"#EXT-X-VERSION:{self.version}"
        yield f"#EXT-X-TARGETDURATION:{self.target_seconds}"
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
            yield f"#EXTINF:{decimal(entry.seconds, 6)},{one_line(entry.title)}"
            if entry.byte_range is not None:
                yield f"#EXT-X-BYTERANGE:{entry.byte_range}"
            yield uri(entry.uri)


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
                ("DEFAULT", _yes(self.default)),
                # what is the default is also selected by itself
                ("AUTOSELECT", _yes(self.autoselect or self.default)),
                ("FORCED", _yes(self.forced) if self.kind == "SUBTITLES" else None),
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


Attributes = list[tuple[str, str | None]]


def attributes(pairs: Attributes) -> str:
    """An attribute list; what is None is left out."""
    return ",".join(f"{name}={value}" for name, value in pairs if value is not None)


def quoted(text: str | None) -> str | None:
    """A quoted-string, which has no way to say a quote or a line's end: those are replaced."""
    return None if text is None else '"' + one_line(text).replace('"', "'") + '"'


def one_line(text: str) -> str:
    return " ".join(text.split()) if any(ord(letter) < 32 or letter == "\x7f" for letter in text) else text


def uri(path: str) -> str:
    """A relative path, or a whole URI, with what URIs don't take percent-encoded."""
    return quote(path, safe="/:?#[]@!$&'()*+,;=%~-._")


def target_seconds(durations: Sequence[Fraction]) -> int:
    """The target duration: the longest when each is rounded to whole seconds, and at least 1."""
    return max([1, *(int(seconds + Fraction(1, 2)) for seconds in durations)])


def decimal(number: Fraction, places: int) -> str:
    """A decimal fraction without needless zeros: at least one digit behind the point."""
    text = f"{round(number * 10**places) / 10**places:.{places}f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def _yes(value: bool) -> str:
    return "YES" if value else "NO"


def _states(key: Key | None, init: InitSection | None) -> Iterator[str]:
    """A key holds for what comes after it: an init section that is named with it is clear."""
    if init is not None:
        yield "#EXT-X-MAP:" + attributes(init.attributes())
    if key is not None:
        yield "#EXT-X-KEY:" + attributes(key.attributes())
