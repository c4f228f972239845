"""Sound that is whole and in its place, at another tempo or faded: as long as it has to be, to the sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame

from pipelines.graph import Chain
from pipelines.rendition import AudioRendition
from pipelines.steps import Step
from pipelines.timestamps import nearest


class Finish:
    """Takes frames that follow each other without holes. What comes out lasts what went in divided by the pace."""

    def __init__(self, rendition: AudioRendition, steps: Sequence[Step], tick: Fraction) -> None:
        self._rendition, self._steps, self._tick = rendition, steps, tick
        self._pace = rendition.pace
        self._chain: Chain | None = None
        self._taken = self._given = 0

    @property
    def missing(self) -> int:
        """Samples that the sound is short of, once it is flushed."""
        return max(0, self._due - self._given)

    @property
    def _due(self) -> int:
        return nearest(self._taken / self._pace)

    def push(self, frame: AudioFrame) -> Iterator[AudioFrame]:
        if self._chain is None:
            self._chain = self._build(frame)
        frame.pts, frame.time_base = self._taken, self._tick
        self._taken += frame.samples
        for made in self._chain.push(frame):
            yield from self._bounded(made)

    def flush(self) -> Iterator[AudioFrame]:
        if self._chain is not None:
            for made in self._chain.push(None):
                yield from self._bounded(made)

    def _bounded(self, made: AudioFrame) -> Iterator[AudioFrame]:
        """Not more than is due of what has been taken."""
        kept = cut(made, samples=self._due - self._given)
        if kept is not None:
            self._given += kept.samples
            yield kept

    def _build(self, frame: AudioFrame) -> Chain:
        source = {
            "sample_rate": str(self._rendition.sample_rate),
            "sample_fmt": frame.format.name,
            "channel_layout": frame.layout.name,
            "time_base": str(self._tick),
        }
        return Chain(("abuffer", source), self._steps, "abuffersink")


def cut(frame: AudioFrame, *, skip: int = 0, samples: int | None = None) -> AudioFrame | None:
    """A frame of the same sound without its first `skip` samples, and of at most `samples`; None: nothing is left."""
    samples = frame.samples - skip if samples is None else min(samples, frame.samples - skip)
    if samples <= 0:
        return None
    pts, frame.pts = frame.pts, None
    fifo = AudioFifo()
    fifo.write(frame)
    if skip:
        fifo.read(skip)
    kept = fifo.read(samples)
    assert kept is not None
    frame.pts = pts
    kept.pts = None if pts is None else pts + skip
    kept.sample_rate, kept.time_base = frame.sample_rate, frame.time_base
    return kept
