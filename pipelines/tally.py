"""What a run has done so far: progress while it works, the result when it is done."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipelines.captions.subtitles import Subtitles
from pipelines.copy_track import CopyTrack
from pipelines.covers import Cover
from pipelines.encode import AudioEncoder, VideoEncoder
from pipelines.filters import Normalise
from pipelines.mux import Writer
from pipelines.packaging.package import Package
from pipelines.pictures.folder import PictureFolder
from pipelines.pictures.worker import PictureWorker
from pipelines.rendition import AudioRendition, CopyRendition, PictureRendition, Plan, RenditionPlan
from pipelines.result import LoudnessResult, OutputResult, Progress, RenditionResult, Result, Warning
from pipelines.sound.graph import AudioGraph
from pipelines.sound.loudness import LoudnessMeter
from pipelines.tracks import Span, TrackState
from pipelines.video.worker import VideoWorker

Key = tuple[str, int]
"""An output's name and the position of a rendition in it."""


MAX_TIMES = 100
"""Moments of pictures that a result names; the others are in the index beside them."""


class Tally:
    """Reads the counters of a run's encoders and tracks; they are written by the run's threads."""

    def __init__(self, plan: Plan, source_seconds: float | None, folder: Path, span: Span) -> None:
        self.plan, self.source_seconds, self.folder, self.span = plan, source_seconds, folder, span
        self.began = time.monotonic()
        self.writers: list[Writer | Package | PictureFolder] = []
        self.encoders: dict[Key, VideoEncoder | AudioEncoder] = {}
        self.tracks: dict[Key, CopyTrack | Subtitles | Cover] = {}
        self.workers: dict[Key, VideoWorker] = {}
        self.sounds: dict[Key, AudioGraph] = {}
        self.pictures: dict[Key, PictureWorker] = {}
        self.meters: dict[Key, LoudnessMeter] = {}
        self.states: list[TrackState] = []

    def progress(self) -> Progress:
        video = [encoder for encoder in self.encoders.values() if isinstance(encoder, VideoEncoder)]
        counted: list[VideoEncoder | AudioEncoder] = [*(video or self.encoders.values())]
        frames = counted[0].frames if counted else sum(state.frames for state in self.states)
        copied = [track for track in self.tracks.values() if track.state in self.states]
        timed = counted or copied or self.pictures.values()
        out_time = max(0.0, min((each.end_seconds for each in timed), default=0.0))
        paces = {id(each): float(self._pace(key)) for key, each in (*self.encoders.items(), *self.tracks.items())}
        reached = max(0.0, min((each.end_seconds * paces.get(id(each), 1.0) for each in timed), default=0.0))
        wall = max(1e-6, time.monotonic() - self.began)
        expected = self.plan.duration_seconds
        fraction = None if not expected else min(1.0, reached / expected)
        speed = out_time / wall
        left = None if expected is None else max(0.0, expected - reached)
        eta = None if left is None or reached <= 0 else left * wall / reached
        return Progress(
            frames=frames,
            out_time=round(out_time, 3),
            fps=round(frames / wall, 2),
            speed=round(speed, 3),
            bytes=sum(writer.bytes for writer in self.writers),
            fraction=fraction,
            eta_seconds=eta,
        )

    def written(self, output: str) -> list[tuple[int, float]]:
        """Bytes and seconds (of the source) of an output's pictures and sound so far, by track."""
        timed = [(key, encoder) for key, encoder in self.encoders.items() if key[0] == output]
        copied = [(key, t) for key, t in self.tracks.items() if key[0] == output and t.state in self.states]
        return [(track.bytes, track.end_seconds * float(self._pace(key))) for key, track in (*timed, *copied)]

    def _pace(self, key: Key) -> Fraction:
        return next(writer.plan.renditions[key[1]].pace for writer in self.writers if writer.plan.name == key[0])

    def result(self, warnings: tuple[Warning, ...]) -> Result:
        """Once all writers are closed."""
        outputs = []
        for writer in self.writers:
            renditions = tuple(
                self._rendition_result((writer.plan.name, number), rendition)
                for number, rendition in enumerate(writer.plan.renditions)
            )
            ends = [r.duration_seconds for r in renditions if r.kind in ("video", "audio")]
            outputs.append(
                OutputResult(
                    name=writer.plan.name,
                    type=writer.plan.type,
                    path=writer.plan.path,
                    files=(paths := writer.files()),
                    size=sum((self.folder / path).stat().st_size for path in paths),
                    duration_seconds=max(ends, default=None),
                    renditions=renditions,
                )
            )
        return Result(
            outputs=tuple(outputs),
            warnings=warnings,
            frames_decoded=sum(state.frames for state in self.states if state.kind == "video"),
            source_seconds=self.source_seconds,
            wall_seconds=round(time.monotonic() - self.began, 3),
        )

    def _rendition_result(self, key: tuple[str, int], rendition: RenditionPlan) -> RenditionResult:
        if isinstance(rendition, PictureRendition):
            return self._pictures_result(key, rendition)
        encoder, track = self.encoders.get(key), self.tracks.get(key)
        facts: dict[str, Any] = {}
        counts: dict[str, Any] = {}
        if (worker := self.workers.get(key)) is not None:
            counts = {name: getattr(worker, name) for name in ("received", "filtered", "dropped", "repeated")}
            if worker.constant is not None:
                facts = {"dropped": worker.constant.dropped, "repeated": worker.constant.repeated}
        if encoder is not None:
            kind = "video" if isinstance(encoder, VideoEncoder) else "audio"
            frames, packets, size, seconds = encoder.frames, encoder.packets, encoder.bytes, encoder.end_seconds
        else:
            assert track is not None
            kind = rendition.media if isinstance(rendition, CopyRendition) else rendition.kind
            frames, packets, size, seconds = track.state.frames, track.state.packets, track.bytes, track.end_seconds
        return RenditionResult(
            kind=kind,
            codec=rendition.codec,
            encoder=None if isinstance(rendition, CopyRendition) else rendition.encoder,
            frames=frames,
            packets=packets,
            bytes=size,
            duration_seconds=round(seconds, 6),
            start_seconds=self._start(key, rendition),
            **counts,
            **({} if encoder is None else self._source_span(rendition, kind)),
            loudness=self._loudness(key, rendition),
            facts=facts,
        )

    def _loudness(self, key: Key, rendition: RenditionPlan) -> LoudnessResult | None:
        if key not in self.meters or not isinstance(rendition, AudioRendition):
            return None
        step = next(step for step in rendition.filters if isinstance(step, Normalise))
        assert step.measured is not None
        return LoudnessResult(
            target_lufs=step.target_lufs,
            before=step.measured,
            after=self.meters[key].result(),
            gain_db=step.gain_db,
            limited=step.limits,
        )

    def _start(self, key: Key, rendition: RenditionPlan) -> float | None:
        encoder = self.encoders.get(key)
        if isinstance(encoder, VideoEncoder):
            return encoder.start_seconds
        began = self.sounds[key].began if key in self.sounds else None
        if began is None or not isinstance(rendition, AudioRendition):
            return None
        return float(began / rendition.sample_rate / rendition.pace)

    def _source_span(self, rendition: RenditionPlan, kind: str) -> dict[str, float]:
        """From when to when the source has something of the track within what is taken, on the output's clock."""
        state = next((each for each in self.states if (each.stream, each.kind) == (rendition.stream, kind)), None)
        if state is None or state.first is None or state.end is None:
            return {}
        span = self.span
        end = state.end if span.end is None else min(state.end, span.end)
        return {
            "source_start_seconds": round(float((max(state.first, span.start) - span.zero) / rendition.pace), 6),
            "source_end_seconds": round(float((end - span.zero) / rendition.pace), 6),
        }

    def _pictures_result(self, key: Key, rendition: PictureRendition) -> RenditionResult:
        worker = self.pictures[key]
        return RenditionResult(
            kind="pictures",
            codec=rendition.codec,
            encoder=rendition.encoder,
            frames=worker.folder.count,
            packets=worker.folder.count,
            bytes=worker.folder.bytes,
            duration_seconds=round(worker.end_seconds, 6),
            facts={"times": worker.folder.times[:MAX_TIMES]},
        )
