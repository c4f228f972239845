"""Decoded sound to an encoder's frames: rate, channels and format by FFmpeg's filters, its place by counting samples.

A track's sound starts at time 0 of its output and goes on without holes: what is missing becomes silence, what comes
twice is cut. Smaller deviations than a lost packet are the clock's, and left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame

from pipelines.filters import Resample
from pipelines.graph import Chain
from pipelines.rendition import AudioRendition
from pipelines.sound.filters import changes_samples, sound_steps, timed_steps
from pipelines.sound.finish import Finish, cut
from pipelines.timestamps import rescale
from pipelines.tracks import Span

DEVIATION_SECONDS = Fraction(19, 1000)
"""Just below one packet of any usual codec (20 ms and more), and above what coarse clocks jitter by."""
SILENCE_SAMPLES = 4096


class AudioGraph:
    """Filters decoded sound of one track into frames of one rendition, their times in samples."""

    def __init__(
        self, rendition: AudioRendition, *, frame_size: int, end_samples: int | None, lead_samples: int = 0
    ) -> None:
        """`frame_size`: samples of each frame but the last; 0: any number. `end_samples`: where a clip ends.

        `lead_samples`: of silence before time 0.
        """
        self._filters = rendition.filters
        self._resample = next(step for step in rendition.filters if isinstance(step, Resample))
        self._changes = any(changes_samples(step) for step in rendition.filters)
        self._tick = Fraction(1, rendition.sample_rate)
        self._deviation = int(DEVIATION_SECONDS * rendition.sample_rate)
        self._frame_size, self._end = frame_size, end_samples
        self._key: tuple[Any, ...] | None = None
        self._chain: Chain | None = None
        self._fifo = AudioFifo()
        self._written: int | None = None
        self._joined = False
        self.began: int | None = None
        """The sample at which the source's sound begins, after silence that was put before it."""
        self._lead, self._read = lead_samples, -lead_samples
        steps = timed_steps(rendition.filters, rendition.sample_rate, self._resample.sample_format)
        self._finish = Finish(rendition, steps, self._tick) if steps else None

    def push(self, frame: AudioFrame) -> Iterator[AudioFrame]:
        key = (frame.sample_rate, frame.format.name, frame.layout.name, frame.time_base)
        if key != self._key:
            yield from self._drain()
            self._key = key
            self._chain = None if self._is_ready(frame) else self._build(frame)
        if self._chain is not None:
            for converted in self._chain.push(frame):
                yield from self._place(converted)
            return
        pts = frame.pts
        yield from self._place(frame)
        frame.pts = pts  # other renditions take this frame too

    def joint(self) -> Iterator[AudioFrame]:
        """One source ends here; the next frame is another's, and exactly where its time says."""
        yield from self._drain()
        self._joined = True

    def until(self, time: Fraction) -> Iterator[AudioFrame]:
        """Silence up to a time, where sound is missing."""
        written = self._written or 0
        missing = rescale(1, time, self._tick) - written if time else 0
        if missing > self._deviation:
            for silence in self._silence(missing):
                self._write(silence)
                yield from self._take()

    def flush(self) -> Iterator[AudioFrame]:
        """What is still inside; the last frame may be shorter."""
        yield from self._drain()
        if self._finish is not None:
            for frame in self._finish.flush():
                self._keep(frame)
            for silence in self._silence(self._finish.missing):
                self._keep(silence)
        yield from self._take(partial=True)

    def _drain(self) -> Iterator[AudioFrame]:
        chain, self._chain, self._key = self._chain, None, None
        if chain is not None:
            for converted in chain.push(None):
                yield from self._place(converted)

    def _place(self, frame: AudioFrame) -> Iterator[AudioFrame]:
        """Takes a converted frame at its time: after silence, cut, or as it follows."""
        assert frame.pts is not None
        assert frame.time_base is not None
        ticks = frame.time_base
        at = frame.pts if ticks == self._tick else rescale(frame.pts, ticks, self._tick)
        written = self._written or 0
        apart = at - written
        if self._written is None or self._joined or abs(apart) > self._deviation:
            self._joined = False
            for silence in self._silence(min(apart, (self._end or at) - written)):
                self._write(silence)
                yield from self._take()
            rest = cut(frame, skip=-apart) if apart < 0 else frame
            if rest is None:
                return
            frame = rest
        if self.began is None:
            self.began = self._written or 0
        self._write(frame)
        yield from self._take()

    def _write(self, frame: AudioFrame) -> None:
        written = self._written or 0
        if self._end is not None and written + frame.samples > self._end:
            shorter = cut(frame, samples=self._end - written)
            if shorter is None:
                return
            frame = shorter
        self._written = written + frame.samples
        if self._finish is None:
            self._keep(frame)
            return
        for finished in self._finish.push(frame):
            self._keep(finished)

    def _keep(self, frame: AudioFrame) -> None:
        if self._lead:
            lead, self._lead = self._lead, 0
            for silence in self._silence(lead):
                silence.pts = None
                self._fifo.write(silence)
        frame.pts = None
        self._fifo.write(frame)

    def _take(self, *, partial: bool = False) -> Iterator[AudioFrame]:
        while (frame := self._fifo.read(self._frame_size, partial)) is not None:
            frame.pts, frame.time_base = self._read, self._tick
            self._read += frame.samples
            yield frame

    def _silence(self, samples: int) -> Iterator[AudioFrame]:
        """In pieces: a hole may last hours."""
        if samples <= 0:
            return
        step = self._resample
        source = {"r": str(step.sample_rate), "cl": step.layout, "n": str(SILENCE_SAMPLES)}
        chain = Chain(("anullsrc", source), [("aformat", {"sample_fmts": step.sample_format})], "abuffersink")
        while samples > 0:
            piece = chain.pull()
            kept = piece if piece.samples <= samples else cut(piece, samples=samples)
            assert kept is not None
            samples -= kept.samples
            yield kept

    def _is_ready(self, frame: AudioFrame) -> bool:
        """Whether the frame is as the encoder wants it, but for its length."""
        if self._changes:
            return False
        step = self._resample
        asked = (step.sample_rate, step.sample_format, step.layout, self._tick)
        return (frame.sample_rate, frame.format.name, frame.layout.name, frame.time_base) == asked

    def _build(self, frame: AudioFrame) -> Chain:
        source = {
            "sample_rate": str(frame.sample_rate),
            "sample_fmt": frame.format.name,
            "channel_layout": frame.layout.name,
            "time_base": str(frame.time_base),
        }
        return Chain(("abuffer", source), sound_steps(self._filters, frame), "abuffersink")


def end_in_samples(span: Span, sample_rate: int) -> int | None:
    """Where a clip ends, counted from its start."""
    return None if span.end is None else rescale(1, span.end - span.start, Fraction(1, sample_rate))
