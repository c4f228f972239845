"""What a job wants to know of its source before it is planned, beyond what every probe tells."""

from __future__ import annotations

from typing import Any

from pipelines.asked.filters import CropFilter
from pipelines.asked.rungs import Rung
from pipelines.captions.beside import with_texts
from pipelines.facts.black_bars import measure_bars
from pipelines.facts.pulldown import Pulldown, measure_pulldown
from pipelines.limits import Limits
from pipelines.opening.beside import filters_of
from pipelines.opening.input import LocalFile
from pipelines.planning.choice import main_video
from pipelines.probe import probe
from pipelines.source import SourceInfo, VideoInfo
from pipelines.spec import FileJob
from pipelines.video.telecine import TELECINED_RATES


def examine(spec: FileJob, file: LocalFile, limits: Limits) -> SourceInfo:
    """`probe`, and what `spec` needs measured; it raises what `probe` does."""
    source = with_texts(probe(file, limits), spec.input.subtitles, file)
    track = main_video(source.video)
    if track is None:
        return source
    changes: dict[str, Any] = {}
    begin, end = _taken(spec, source)
    if wants_bars(spec):
        changes["active"] = measure_bars(file, track, begin, end, limits)
    kind = _perhaps_film(track)
    if kind is not None and wants_film(spec):
        changes["pulldown"] = measure_pulldown(file, track, kind, begin, end, limits)
    video = tuple(v.model_copy(update=changes) if v.index == track.index else v for v in source.video)
    return source.model_copy(update={"video": video})


def _taken(spec: FileJob, source: SourceInfo) -> tuple[float, float | None]:
    """From when to when on the input's clock."""
    clip = spec.input.clip
    begin = source.start_seconds + (0.0 if clip is None else clip.start)
    end = None if source.duration_seconds is None else source.start_seconds + source.duration_seconds
    if clip is not None and clip.end is not None:
        end = min(source.start_seconds + clip.end, end or float("inf"))
    return begin, end


def _perhaps_film(track: VideoInfo) -> Pulldown | None:
    """What the first pictures suggest; fields are matched in 8 bits only."""
    slowest, fastest = TELECINED_RATES
    interlaced = track.interlacing in ("top", "bottom") and track.bit_depth <= 8
    if interlaced and track.frame_rate is not None and slowest <= track.frame_rate <= fastest:
        return "hard"
    return "soft" if track.uneven and track.interlacing not in ("top", "bottom") else None


def wants_film(spec: FileJob) -> bool:
    """Whether some rendition is to be made of whole pictures in the usual way."""
    for output in spec.outputs or ():
        video = getattr(output, "video", None)
        rungs = video if isinstance(video, tuple) else (video,)
        if video == "auto" or any(isinstance(rung, Rung) and rung.deinterlace == "auto" for rung in rungs):
            return True
    return False


def wants_bars(spec: FileJob) -> bool:
    """Whether some rendition is to lose its black bars."""
    return any(isinstance(each, CropFilter) and each.auto for each in filters_of(spec))
