"""Live HLS and MPEG-DASH: segments of each rendition, and the playlists that name them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.asked.streams import DashOutput, PackagedOutput
from pipelines.live.cutting import Cut, Cutter
from pipelines.live.folder import write_whole
from pipelines.live.journal import Journal
from pipelines.live.mpd import manifest
from pipelines.live.parted import PartedShelf
from pipelines.live.parting import InStep
from pipelines.live.shelf import Shelf, Wall
from pipelines.live.sink import Queued
from pipelines.live.units import Piece, Track
from pipelines.packaging.codecs import Shape, codec_string
from pipelines.packaging.m3u8 import Alternative, MultivariantPlaylist, Variant
from pipelines.packaging.parts import Report

AUDIO_GROUP = "audio"
RETENTION_SEGMENTS = 3
LONGEST_RETENTION_SECONDS = Fraction(60)
"""Players may still ask for what has left their playlist."""


@dataclass(frozen=True)
class _Lane:
    """One media playlist: its segments, and what cuts them."""

    shelf: Shelf
    cutter: Cutter
    names: frozenset[str]
    step: InStep | None = None
    """Where parts are published before their segment is whole."""


class Packager(Queued):
    """`video` and `audio` name the tracks; `folder` is the output's own, and must be there."""

    def __init__(
        self, output: PackagedOutput, folder: Path, video: Sequence[str], audio: str | None, wall: Wall
    ) -> None:
        names = (*video, *([audio] if audio else []))
        super().__init__(str(output.name), output.type, frozenset(names), names[0])
        self._output, self._folder, self._wall = output, folder, wall
        self._hls = output.type in ("hls", "cmaf")
        self._low_latency = not isinstance(output, DashOutput) and output.low_latency
        self.prompt = self._low_latency
        self._dash = output.type in ("dash", "cmaf")
        self._tracks: dict[str, Track] = {}
        self._video, self._audio = tuple(video), audio
        self._journal = Journal(folder)
        self._lanes = self._make_lanes()
        for lane in self._lanes:
            (folder / lane.shelf.name).mkdir(exist_ok=True)
            self._restore(lane)
        self._top = ""

    def _make_lanes(self) -> list[_Lane]:
        muxed = self._output.container == "ts"
        lanes = []
        for name in self._video:
            follows = (self._audio,) if muxed and self._audio else ()
            lanes.append(self._lane(name, (name, *follows), (name, *follows)))
        if self._audio and not (muxed and self._video):
            leader = (self._video[0],) if self._video else ()
            lanes.append(self._lane(self._audio, (*leader, self._audio), (self._audio,)))
        return lanes

    def _lane(self, name: str, cut_by: tuple[str, ...], keeps: tuple[str, ...]) -> _Lane:
        output = self._output
        known = [each for each in self._journal.known if each.rendition == name]
        seconds = Fraction(output.segment_seconds).limit_denominator(1000)
        cutter = Cutter(cut_by, seconds)
        if isinstance(output, DashOutput) or not output.low_latency:
            shelf = Shelf(name, self._folder, output.container, keeps, output.segment_seconds, known)
            return _Lane(shelf, cutter, frozenset(cut_by))
        part = Fraction(output.part_seconds).limit_denominator(1000)
        parted = PartedShelf(name, self._folder, keeps, output.segment_seconds, known, part)
        return _Lane(parted, cutter, frozenset(cut_by), InStep(cut_by[0]))

    def _restore(self, lane: _Lane) -> None:
        """Parts of a segment that was never finished are one by now: their numbers were told."""
        if isinstance(lane.shelf, PartedShelf):
            try:
                made = lane.shelf.restore()
                if made is not None:
                    self._journal.add(made)
            except OSError as error:
                self._note(error)

    def take(self, piece: Piece) -> None:
        self._tracks[piece.track.name] = piece.track
        for lane in self._lanes:
            if piece.track.name in lane.names:
                for each in (piece,) if lane.step is None else lane.step.take(piece):
                    self._take(lane, each)

    def _take(self, lane: _Lane, piece: Piece) -> None:
        for cut in lane.cutter.take(piece):
            self._publish(lane, cut)
        if isinstance(lane.shelf, PartedShelf):
            try:
                if lane.shelf.feed(lane.cutter.unfinished):
                    self._list_parts(lane.shelf)
            except OSError as error:
                self._note(error)

    def end(self) -> None:
        for lane in self._lanes:
            for piece in () if lane.step is None else lane.step.rest():
                self._take(lane, piece)
            for cut in lane.cutter.flush():
                self._publish(lane, cut)
        if self.final:
            for lane in self._lanes:
                self._list(lane, ended=True)
                if isinstance(lane.shelf, PartedShelf):
                    lane.shelf.clear()
            self._write_manifest(ended=True)

    def _publish(self, lane: _Lane, cut: Cut) -> None:
        """A segment that can't be written is missing, and the stream goes on: there may be room for the next."""
        try:
            made = lane.shelf.add(cut)
            if made is None:
                return
            self._journal.add(made)
            self._forget(lane, made.end)
            self._list(lane)
            self._write_top()
            self._write_manifest()
        except OSError as error:
            self._note(error)
            return
        self.standing.bytes += made.size
        self.standing.state, self.standing.error = "live", None

    def _note(self, error: OSError) -> None:
        self.standing.failures += 1
        self.standing.error = f"a segment could not be written: {os.strerror(error.errno or 0)}"
        self.standing.state = "retrying"

    def _forget(self, lane: _Lane, newest: Fraction) -> None:
        kept = Fraction(self._output.kept_seconds)
        spare = max(RETENTION_SEGMENTS * Fraction(self._output.segment_seconds), min(kept, LONGEST_RETENTION_SECONDS))
        lane.shelf.drop_before(newest - kept - spare)
        total = sum(len(each.shelf.segments) for each in self._lanes)
        if self._journal.needs_compacting(total):
            segments = (segment for each in self._lanes for segment in each.shelf.segments)
            self._journal.compact(segments)

    def _list(self, lane: _Lane, *, ended: bool = False) -> None:
        if not self._hls:
            return
        for prefix, window in self._windows():
            if isinstance(lane.shelf, PartedShelf) and not prefix and not ended:
                self._list_parts(lane.shelf)
                continue
            text = lane.shelf.playlist(window, self._wall, ended=ended).text()
            write_whole(self._folder / f"{prefix}{lane.shelf.name}.m3u8", text.encode())

    def _list_parts(self, shelf: PartedShelf) -> None:
        """The playlist of the window, whose edge is the newest part."""
        all_shelves = [lane.shelf for lane in self._lanes if isinstance(lane.shelf, PartedShelf)]
        reports = [
            Report(f"{each.name}.m3u8", *each.position)
            for each in all_shelves
            if each is not shelf and each.position is not None
        ]
        longest = max(each.part_target for each in all_shelves)
        text = shelf.low_latency(Fraction(self._output.window_seconds), self._wall, longest, reports).text()
        write_whole(self._folder / f"{shelf.name}.m3u8", text.encode())

    def _windows(self) -> list[tuple[str, Fraction]]:
        """Name prefix and length of each set of playlists."""
        windows = [("", Fraction(self._output.window_seconds))]
        if self._output.dvr_seconds is not None:
            windows.append(("dvr-", Fraction(self._output.dvr_seconds)))
        return windows

    def _write_top(self) -> None:
        """The multivariant playlist, once every rendition has something to show."""
        if not self._hls or not all(lane.shelf.segments for lane in self._lanes):
            return
        variants = [self._variant(lane) for lane in self._lanes if lane.shelf.name in self._video]
        separate = next((lane for lane in self._lanes if lane.shelf.name == self._audio), None)
        if not self._video and separate is not None:
            variants = [self._variant(separate)]
        for prefix, _ in self._windows():
            sound = None
            if self._video and separate is not None:
                track = self._tracks[str(self._audio)]
                channels = str(track.channels) if track.channels else None
                uri = f"{prefix}{separate.shelf.name}.m3u8"
                sound = Alternative("AUDIO", AUDIO_GROUP, "default", uri, default=True, channels=channels)
            named = [Variant(**{**variant.__dict__, "uri": prefix + variant.uri}) for variant in variants]
            text = MultivariantPlaylist(named, [sound] if sound else []).text()
            name = "dvr.m3u8" if prefix else "index.m3u8"
            if prefix or text != self._top or not (self._folder / name).exists():
                write_whole(self._folder / name, text.encode())
            self._top = self._top if prefix else text

    def _variant(self, lane: _Lane) -> Variant:
        tracks = [self._tracks[name] for name in sorted(lane.shelf.keeps, reverse=True) if name in self._tracks]
        sound = self._tracks.get(self._audio or "")
        separate = sound is not None and self._video and self._audio not in lane.shelf.keeps
        peak, average = lane.shelf.bit_rates
        if separate:
            other = next(each for each in self._lanes if each.shelf.name == self._audio)
            peak, average = (a + b for a, b in zip((peak, average), other.shelf.bit_rates, strict=True))
            assert sound is not None
            tracks.append(sound)
        # told for good when it is first written: players take it as a promise, so what comes may be a little more
        video = next((track for track in tracks if track.kind == "video"), None)
        return Variant(
            uri=f"{lane.shelf.name}.m3u8",
            bandwidth=_rounded(peak * 11 // 10),
            average_bandwidth=_rounded(average),
            codecs=_codecs(tracks),
            resolution=None if video is None or not video.width else (video.width, video.height),
            frame_rate=None if video is None else video.frame_rate,
            audio=AUDIO_GROUP if separate else None,
        )

    def _write_manifest(self, *, ended: bool = False) -> None:
        if not self._dash or not all(lane.shelf.segments for lane in self._lanes):
            return
        window = Fraction(self._output.dvr_seconds or self._output.window_seconds)
        told = [
            (self._tracks[lane.shelf.name], lane.shelf.listed(window), lane.shelf.bit_rates[0])
            for lane in self._lanes
            if lane.shelf.name in self._tracks
        ]
        text = manifest(told, self._wall, window, Fraction(self._output.segment_seconds), ended=ended)
        write_whole(self._folder / "manifest.mpd", text.encode())


def _codecs(tracks: Sequence[Track]) -> tuple[str, ...]:
    """None at all where one of them has no string: players then look for themselves."""
    try:
        return tuple(dict.fromkeys(_codec(track) for track in tracks))
    except ValueError:
        return ()


def _codec(track: Track) -> str:
    rate = track.frame_rate or Fraction(30)
    return codec_string(track.codec, track.extradata, Shape(track.width, track.height, rate))


def _rounded(bits: int) -> int:
    """To 50 kbit/s upwards, so that the playlist does not change with each segment."""
    return -(-bits // 50_000) * 50_000
