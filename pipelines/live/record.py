"""Recording: files that are playable alone, each there under its name only once it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import IO

import av

from pipelines.asked.streams import RecordOutput
from pipelines.live.cutting import LAG_SECONDS
from pipelines.live.folder import PART_PREFIX, free_bytes, remove
from pipelines.live.remux import Mux
from pipelines.live.shelf import Wall
from pipelines.live.sink import Queued
from pipelines.live.units import Piece, Track

NAME = "%Y-%m-%dT%H-%M-%S.%f"
FRAGMENTED = "+frag_keyframe+empty_moov+default_base_moof"
_COMPLETE_ALONE = "+hybrid_fragmented+frag_keyframe+delay_moov"
"""In fragments while it is written, so that a power cut leaves what was recorded; an ordinary file at the end."""


class Recorder(Queued):
    """Cuts at keyframes, after `segment_seconds` and wherever time does not go on."""

    def __init__(self, output: RecordOutput, folder: Path, tracks: Iterable[str], leader: str, wall: Wall) -> None:
        super().__init__(str(output.name), output.type, frozenset(tracks), leader)
        self._output, self._folder, self._wall = output, folder, wall
        self._seconds = Fraction(output.segment_seconds).limit_denominator(1000)
        self._known: dict[str, Track] = {}
        self._file: _File | None = None
        self._next: Fraction | None = None
        self._waiting: list[Piece] = []
        self._followed: dict[str, Fraction] = {}
        recover(folder, output.format)

    def take(self, piece: Piece) -> None:
        name = piece.track.name
        changed = self._known.get(name) not in (None, piece.track)
        self._known[name] = piece.track
        leads = name == self._leader
        if leads and piece.unit.key and self._is_due(piece, changed=changed):
            self._next = piece.time
            if piece.fresh or changed:
                self._close()
            if self._file is None:
                self._waiting = [each for each in self._waiting if each.time >= piece.time]
        self._followed[name] = piece.time
        if self._next is None and self._file is None and not leads:
            # a copy comes sooner than what is encoded: it may belong to the file that the first keyframe begins
            self._waiting = [each for each in self._waiting if piece.time - each.time <= LAG_SECONDS]
            self._waiting.append(piece)
        elif self._next is not None:
            if leads or piece.time >= self._next:
                self._waiting.append(piece)
            else:
                self._write(piece)
            if self._is_passed():
                self._turn()
        else:
            self._write(piece)

    def end(self) -> None:
        if self._next is not None:
            self._turn()
        self._close()

    def _is_due(self, piece: Piece, *, changed: bool) -> bool:
        if self._next is not None:
            return False
        file = self._file
        return file is None or piece.fresh or changed or piece.time - file.start >= self._seconds

    def _is_passed(self) -> bool:
        assert self._next is not None
        lead = self._followed.get(self._leader, self._next)
        followers = [self._followed.get(name) for name in self.tracks - {self._leader}]
        passed = all(time is not None and time >= self._next for time in followers)
        return passed or lead - self._next > LAG_SECONDS

    def _turn(self) -> None:
        """Finishes the file and begins the next one with what waits for it."""
        waiting, self._waiting = self._waiting, []
        start, self._next = self._next, None
        self._close()
        if start is not None:
            self._open(start)
        for piece in waiting:
            self._write(piece)

    def _open(self, start: Fraction) -> None:
        tracks = [self._known[name] for name in sorted(self._known, key=lambda name: name != self._leader)]
        try:
            self._file = _File(self._folder, self._output.format, tracks, start, self._wall(start))
        except OSError as error:
            self._broken_by(error)

    def _write(self, piece: Piece) -> None:
        if self._file is None or piece.track not in self._file.tracks:
            return
        try:
            self._file.write(piece)
        except OSError as error:
            self._file.abandon()
            self._file = None
            self._broken_by(error)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self.standing.bytes += file.finish()
            self.standing.state, self.standing.error = "live", None
        except OSError as error:
            self._broken_by(error)
        retain(self._folder, self._output, self._wall(self._followed.get(self._leader, file.start)))

    def _broken_by(self, error: OSError) -> None:
        """A recording goes on with the next file; what was lost is said."""
        self.standing.failures += 1
        self.standing.state = "retrying"
        self.standing.error = f"a file could not be written: {os.strerror(error.errno or 0)}"


class _File:
    """One file while it is written."""

    def __init__(self, folder: Path, form: str, tracks: list[Track], start: Fraction, wall: datetime) -> None:
        self.start, self.tracks = start, tracks
        name = f"{wall.astimezone(UTC).strftime(NAME)[:-3]}Z.{form}"
        self._folder, self._path = folder, folder / name
        self._part = folder / f"{PART_PREFIX}{name}"
        self._file: IO[bytes] = self._part.open("wb")
        options = {"movflags": mp4_flags()} if form == "mp4" else {}
        try:
            self._mux = Mux(self._file, form, tracks, options=options, start=start)
        except BaseException:
            self._file.close()
            remove(self._part)
            raise
        self._pieces = 0

    def write(self, piece: Piece) -> None:
        self._mux.write(piece)
        self._pieces += 1

    def finish(self) -> int:
        """Makes the file durable and gives it its name; its size. OSError, and then nothing is left of it."""
        try:
            self._mux.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            size = os.fstat(self._file.fileno()).st_size
            self._file.close()
            if not self._pieces or not size:
                remove(self._part)
                return 0
            self._part.replace(self._path)
            sync_folder(self._folder)
            return size
        except OSError:
            self.abandon()
            raise

    def abandon(self) -> None:
        try:
            self._mux.close()
            self._file.close()
        except (OSError, ValueError):
            pass  # it is about the file that is given up
        remove(self._part)


@cache
def mp4_flags() -> str:
    """What this build of FFmpeg has of the two."""
    try:
        with av.open(BytesIO(), "w", format="mp4", options={"movflags": _COMPLETE_ALONE}) as trial:
            trial.add_stream("aac", rate=48_000)
            trial.start_encoding()
    except (av.error.FFmpegError, ValueError):
        return FRAGMENTED
    return _COMPLETE_ALONE


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def recover(folder: Path, form: str) -> None:
    """What was being written when the machine or the service died: kept where it can be played, else removed."""
    for part in sorted(folder.glob(f"{PART_PREFIX}*.{form}")):
        if _is_playable(part):
            part.replace(folder / part.name.removeprefix(PART_PREFIX))
        else:
            remove(part)


def _is_playable(path: Path) -> bool:
    try:
        with path.open("rb") as file, av.open(file, "r") as container:
            return any(packet.size for packet in container.demux() if packet.size)
    except (av.error.FFmpegError, OSError, ValueError):
        return False


def retain(folder: Path, output: RecordOutput, now: datetime) -> None:
    """Deletes the oldest files as long as they are too old, too much, or leave the disk too little."""
    files = sorted(path for path in folder.glob(f"*.{output.format}") if not path.name.startswith("."))
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    for path in files[:-1]:
        ended = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        old = output.keep_seconds is not None and (now - ended).total_seconds() > output.keep_seconds
        much = output.keep_bytes is not None and total > output.keep_bytes
        tight = output.min_free_bytes is not None and free_bytes(folder) < output.min_free_bytes
        if not (old or much or tight):
            return
        remove(path)
        total -= sizes[path]
