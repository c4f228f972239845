"""A ladder read again from the disk: what players would find.

It is read by its own playlists and headers, not by what the writing code remembers.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePosixPath

import av

from pipelines.errors import VerifyFailed, cause
from pipelines.packaging.layout import DASH_NAME, HLS_NAME, IFRAMES_NAME, Packaging, TrackLayout
from pipelines.packaging.mp4 import Fragment, boxes, parse, track_timescale
from pipelines.packaging.ts import OFFSET_SECONDS, PACKET_BYTES
from pipelines.rendition import OutputPlan
from pipelines.result import OutputResult

SLACK_SECONDS = Fraction(1, 2)
FRAME_SLACK = Fraction(1, 10)
"""Between a track's segments: rounding only, but sound is cut at its own frames."""


@dataclass(frozen=True)
class Found:
    """A segment as a playlist names it. `size` None: to the file's end."""

    path: Path
    seconds: Fraction
    offset: int = 0
    size: int | None = None

    def read(self) -> bytes:
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read() if self.size is None else file.read(self.size)


def verify_package(output: OutputPlan, written: OutputResult, folder: Path) -> None:
    """Raises VerifyFailed for the first thing that is not as it must be."""
    packaging = output.packaging
    assert packaging is not None
    for name in written.files:
        if not (folder / name).is_file() or (folder / name).stat().st_size == 0:
            raise _failed(f"{name} is empty", name)
    root = folder / PurePosixPath(output.path).parent
    for layout, track in zip(packaging.tracks, written.renditions, strict=True):
        if layout.kind != "subtitle" and track.packets:
            _Check(packaging, layout, root, output.path).track(Fraction(track.duration_seconds))
    if "dash" in packaging.manifests:
        text = (root / DASH_NAME).read_text(encoding="utf-8")
        missing = [t.folder for t, track in zip(packaging.tracks, written.renditions, strict=True)
                   if track.packets and f'id="{t.folder}"' not in text]  # fmt: skip
        if missing:
            raise _failed(f"{DASH_NAME} lacks {', '.join(missing)}", DASH_NAME)


def _failed(message: str, path: str) -> VerifyFailed:
    return VerifyFailed(message, stage="verify", path=path)


class _Check:
    def __init__(self, packaging: Packaging, layout: TrackLayout, root: Path, path: str) -> None:
        self._packaging, self._layout = packaging, layout
        self._folder = root / layout.folder
        self._path = str(PurePosixPath(path).parent / layout.folder)
        self._due = Fraction(0)
        """When the segment begins by what is listed before it, counted from the first one's begin."""
        self._begin: Fraction | None = None
        self._held = Fraction(0)
        """Seconds of all samples so far."""

    def track(self, expected: Fraction) -> None:
        """`expected`: seconds that were written of it."""
        init, segments = self._listed(expected)
        if not segments:
            raise _failed(f"{self._path} has no segments", self._path)
        reader = self._fmp4 if self._packaging.segment_format == "fmp4" else self._ts
        if not self._packaging.readable:
            reader = self._sealed
        total = Fraction(0)
        for segment in segments:
            reader(init, segment)
            total += segment.seconds
            self._due = total
        if self._begin is not None and total - self._held > FRAME_SLACK + self._frame():
            raise _failed(f"{self._path} lasts {float(self._held):.3f} s, not as listed", self._path)
        if abs(total - expected) > max(SLACK_SECONDS, expected / 100):
            raise _failed(f"{self._path} lasts {float(total):.2f} s, {float(expected):.2f} s were written", self._path)
        if not self._decodable:
            return
        for segment in dict.fromkeys((segments[0], segments[-1])):
            self._decodes(init + segment.read(), segment.path.name)
        if self._layout.kind == "video" and self._packaging.iframes and "hls" in self._packaging.manifests:
            self._iframes(init)

    @property
    def _decodable(self) -> bool:
        """FFmpeg's reader of transport streams decrypts nothing; that of MP4 takes a key."""
        return self._packaging.encryption is None or (
            self._packaging.readable and self._packaging.segment_format == "fmp4"
        )

    def _listed(self, expected: Fraction) -> tuple[bytes, list[Found]]:
        if "hls" in self._packaging.manifests:
            init, found = read_playlist(self._folder / HLS_NAME)
            return (b"" if init is None else init.read()), found
        if self._packaging.single_file:
            return self._split(self._folder / "media.mp4", expected)
        init_data = (self._folder / "init.mp4").read_bytes()
        return init_data, _timed(init_data, sorted(self._folder.glob("*.m4s")), expected)

    def _split(self, path: Path, expected: Fraction) -> tuple[bytes, list[Found]]:
        """The parts of a file without a playlist: the init section, and one segment of all fragments."""
        data = path.read_bytes()
        at = next(box.begin - 8 for box in boxes(data) if box.kind == b"moof")
        return data[:at], [Found(path, min(_lasts(data[:at], data[at:]), expected), at, len(data) - at)]

    def _sealed(self, init: bytes, segment: Found) -> None:
        """What is encrypted can't be looked into: it is there, in whole blocks."""
        size = len(segment.read())
        if not size or size % 16:
            raise _failed(f"{self._name(segment)} is not whole", self._name(segment))

    def _fmp4(self, init: bytes, segment: Found) -> None:
        """Where pictures are reordered and their times uneven, a segment's samples do not last as long as it does."""
        data = segment.read()
        try:
            self._held += _lasts(init, data)
            first = parse_all(data)[0]
            begin = Fraction(first.begin, track_timescale(init))
        except ValueError as error:
            raise _failed(f"{self._name(segment)} is not whole: {error}", self._name(segment)) from error
        if not first.samples[0].sync:
            raise _failed(f"{self._name(segment)} does not begin with a keyframe", self._name(segment))
        self._begin = begin if self._begin is None else self._begin
        away = begin - self._begin - self._due
        if abs(away) > FRAME_SLACK + self._frame():
            raise _failed(f"{self._name(segment)} begins {float(away):.3f} s off what is listed", self._name(segment))

    def _ts(self, init: bytes, segment: Found) -> None:
        data = segment.read()
        if not data or len(data) % PACKET_BYTES or any(byte != 0x47 for byte in data[::PACKET_BYTES]):
            raise _failed(f"{self._name(segment)} is no whole transport stream", self._name(segment))
        if data[1] & 0x1F or data[2]:
            raise _failed(f"{self._name(segment)} does not begin with its tables", self._name(segment))
        if self._layout.kind != "video":
            return
        with av.open(io.BytesIO(data), "r", format="mpegts") as container:
            first = next(packet for packet in container.demux(video=0))
            if not first.is_keyframe or (first.pts or 0) * (first.time_base or 1) < OFFSET_SECONDS:
                raise _failed(f"{self._name(segment)} does not begin with a keyframe", self._name(segment))

    def _frame(self) -> Fraction:
        picture = self._layout.picture
        return Fraction(0) if picture is None else 1 / picture.frame_rate

    def _decodes(self, data: bytes, name: str) -> None:
        """The first frame of a segment, with nothing else but the init section."""
        form = "mp4" if self._packaging.segment_format == "fmp4" else "mpegts"
        kind = "video" if self._layout.kind == "video" else "audio"
        sealed = self._packaging.encryption
        options = {} if sealed is None else {"decryption_key": sealed.key.get_secret_value()}
        try:
            with av.open(io.BytesIO(data), "r", format=form, options=options) as container:
                stream = next(stream for stream in container.streams if stream.type == kind)
                next(iter(container.decode(stream)))
        except (av.error.FFmpegError, StopIteration, ValueError) as error:
            raise _failed(f"{self._path}/{name} does not decode: {cause(error)}", f"{self._path}/{name}") from error

    def _iframes(self, init: bytes) -> None:
        _, found = read_playlist(self._folder / IFRAMES_NAME)
        for frame in dict.fromkeys((found[0], found[-1])):
            self._decodes(init + frame.read(), f"{IFRAMES_NAME}: {frame.path.name}")

    def _name(self, segment: Found) -> str:
        return f"{self._path}/{segment.path.name}"


def parse_all(data: bytes) -> list[Fragment]:
    """The fragments of a segment."""
    starts = [box.begin - 8 for box in boxes(data) if box.kind == b"moof"]
    return [parse(data[begin:end]) for begin, end in zip(starts, [*starts[1:], len(data)], strict=True)]


def _lasts(init: bytes, data: bytes) -> Fraction:
    return Fraction(sum(fragment.duration for fragment in parse_all(data)), track_timescale(init))


def _timed(init: bytes, paths: Sequence[Path], expected: Fraction) -> list[Found]:
    """Segments of which no playlist says how long they are: each lasts until the next one begins.

    The last one lasts until all samples are over, of which there may be some more than `expected`.
    """
    begins, held, scale = [], 0, track_timescale(init)
    for path in paths:
        fragments = parse_all(path.read_bytes())
        begins.append(fragments[0].begin)
        held += sum(fragment.duration for fragment in fragments)
    ends = [*begins[1:], begins[0] + min(held, round(expected * scale))] if begins else []
    return [Found(path, Fraction(end - begin, scale)) for path, begin, end in zip(paths, begins, ends, strict=True)]


def read_playlist(path: Path) -> tuple[Found | None, list[Found]]:
    """Init section and segments of one of our own media playlists."""
    init: Found | None = None
    found: list[Found] = []
    seconds = Fraction(0)
    place: tuple[int, int | None] = (0, None)
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "#EXT-X-MAP":
            values = dict(_attributes(value))
            init = Found(path.parent / values["URI"], Fraction(0), *_range(values.get("BYTERANGE")))
        elif name == "#EXTINF":
            seconds = Fraction(value.partition(",")[0])
        elif name == "#EXT-X-BYTERANGE":
            place = _range(value)
        elif line and not line.startswith("#"):
            found.append(Found(path.parent / line, seconds, *place))
            place = (0, None)
    return init, found


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, _, value = part.partition("=")
        yield name, value.strip('"')


def _range(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    length, _, offset = text.partition("@")
    return int(offset), int(length)
