"""What a job wants to know of its source before it is planned, beyond what every probe tells."""

from __future__ import annotations

from pipelines.asked.filters import CropFilter
from pipelines.captions.beside import with_texts
from pipelines.facts.black_bars import measure_bars
from pipelines.limits import Limits
from pipelines.opening.beside import filters_of
from pipelines.opening.input import LocalFile
from pipelines.planning.choice import main_video
from pipelines.probe import probe
from pipelines.source import SourceInfo
from pipelines.spec import FileJob


def examine(spec: FileJob, file: LocalFile, limits: Limits) -> SourceInfo:
    """`probe`, and what `spec` needs measured; it raises what `probe` does."""
    source = with_texts(probe(file, limits), spec.input.subtitles, file)
    track = main_video(source.video)
    if track is None or not wants_bars(spec):
        return source
    clip = spec.input.clip
    begin = source.start_seconds + (0.0 if clip is None else clip.start)
    end = None if source.duration_seconds is None else source.start_seconds + source.duration_seconds
    if clip is not None and clip.end is not None:
        end = min(source.start_seconds + clip.end, end or float("inf"))
    area = measure_bars(file, track, begin, end, limits)
    video = tuple(v.model_copy(update={"active": area}) if v.index == track.index else v for v in source.video)
    return source.model_copy(update={"video": video})


def wants_bars(spec: FileJob) -> bool:
    """Whether some rendition is to lose its black bars."""
    return any(isinstance(each, CropFilter) and each.auto for each in filters_of(spec))
