"""Loudness by EBU R 128 (ITU-R BS.1770): measuring a programme, and the one gain that brings it to its target."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.filter import Graph

from pipelines.filters import Loudness, Normalise

BLOCK_SECONDS = Fraction(4, 10)
"""BS.1770's gating block. Sound that is shorter is measured as if it went on and on."""
REPEATED_SECONDS = 2
GATE_LUFS = -70.0
"""What is quieter is not part of a programme."""
OVERSAMPLED = 4
"""Times the sample rate at which peaks between samples are looked for (BS.1770, annex 2)."""
MOST_GAIN_DB = 40.0
"""More would lift what is hardly there."""

MOST_MADE_UP_DB = 3.0
"""Of what a limiter takes away: beyond that it would be heard at work."""


class LoudnessMeter:
    """Measures frames of one layout and rate, float or integer; `result` once all are pushed."""

    def __init__(self) -> None:
        self._gated: _Tap | None = None
        self._oversampled: _Tap | None = None
        self._first: list[AudioFrame] | None = []
        self._samples = 0
        self._rate = 0
        self._told: dict[str, str] = {}
        self._peak = 0.0

    def push(self, frame: AudioFrame) -> None:
        """The frame is kept as it is."""
        if self._gated is None:
            self._rate = frame.sample_rate
            self._gated = _Tap(frame, [("ebur128", {"metadata": "1", "framelog": "quiet"})])
            up = {"osr": str(OVERSAMPLED * frame.sample_rate), "osf": "fltp"}
            self._oversampled = _Tap(frame, [("aresample", up)])
        self._measure(frame)
        assert self._oversampled is not None
        for piece in self._oversampled.push(frame):
            self._see_peak(piece)
        self._samples += frame.samples
        if self._first is not None:
            self._first.append(frame)
            if self._samples >= BLOCK_SECONDS * self._rate:
                self._first = None

    def result(self) -> Loudness:
        if self._gated is None or self._oversampled is None:
            return Loudness(integrated_lufs=None, range_lu=0.0, true_peak_dbtp=None)
        if self._first:
            while self._samples < REPEATED_SECONDS * self._rate:
                for frame in self._first:
                    self._measure(frame)
                    self._samples += frame.samples
        for piece in self._oversampled.push(None):
            self._see_peak(piece)
        integrated = float(self._told.get("lavfi.r128.I", GATE_LUFS))
        heard = math.isfinite(integrated) and integrated > GATE_LUFS
        return Loudness(
            integrated_lufs=round(integrated, 2) if heard else None,
            range_lu=round(float(self._told.get("lavfi.r128.LRA", 0)), 2) if heard else 0.0,
            true_peak_dbtp=round(20 * math.log10(self._peak), 2) if self._peak > 0 else None,
        )

    def _measure(self, frame: AudioFrame) -> None:
        assert self._gated is not None
        for block in self._gated.push(frame):
            self._told = dict(block.metadata) or self._told

    def _see_peak(self, frame: AudioFrame) -> None:
        self._peak = max(self._peak, float(np.abs(frame.to_ndarray()).max(initial=0.0)))


class _Tap:
    """A chain of FFmpeg's filters beside the sound's way: frames that are pushed are given back untouched."""

    def __init__(self, frame: AudioFrame, steps: list[tuple[str, dict[str, str]]]) -> None:
        graph: Any = Graph()
        self._tick = Fraction(1, frame.sample_rate)
        self._source = graph.add(
            "abuffer",
            sample_rate=str(frame.sample_rate),
            sample_fmt=frame.format.name,
            channel_layout=frame.layout.name,
            time_base=str(self._tick),
        )
        node = self._source
        for name, options in steps:
            following = graph.add(name, **options)
            node.link_to(following)
            node = following
        self._sink = graph.add("abuffersink")
        node.link_to(self._sink)
        graph.configure()
        self._graph = graph
        self._at = 0

    def push(self, frame: AudioFrame | None) -> Iterator[AudioFrame]:
        if frame is None:
            self._source.push(None)
        else:
            pts, time_base = frame.pts, frame.time_base
            frame.pts, frame.time_base = self._at, self._tick
            self._source.push(frame)
            self._at += frame.samples
            frame.pts = pts
            if time_base is not None:
                frame.time_base = time_base
        while True:
            try:
                yield self._sink.pull()
            except (BlockingIOError, av.error.EOFError):
                return


def corrected(step: Normalise, measured: Loudness) -> Normalise:
    """The step with the gain that what was measured calls for."""
    integrated, peak = measured.integrated_lufs, measured.true_peak_dbtp
    if integrated is None or peak is None:
        return step.model_copy(update={"measured": measured, "gain_db": 0.0})
    gain = min(step.target_lufs - integrated, MOST_GAIN_DB)
    room = step.true_peak_dbtp - peak
    limits = gain > room and step.over_peak == "limit"
    if gain > room and not limits:
        gain = room
    return step.model_copy(update={"measured": measured, "gain_db": round(gain, 3), "limits": limits})


def made_up(step: Normalise, limited: Loudness | None) -> Normalise:
    """The step with what its limiter was heard to take away, where it was listened to."""
    if limited is None or limited.integrated_lufs is None:
        return step
    lost = step.target_lufs - limited.integrated_lufs
    return step.model_copy(update={"gain_db": round(step.gain_db + min(max(lost, 0.0), MOST_MADE_UP_DB), 3)})
