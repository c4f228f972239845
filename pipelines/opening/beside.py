"""Files that a job names beside its input."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.asked.filters import ImageSource, OverlayFilter, VideoFilter
from pipelines.asked.subtitle_files import SubtitleFile
from pipelines.spec import FileJob


def filters_of(spec: FileJob) -> Iterator[VideoFilter]:
    """All filters of all its outputs."""
    for output in spec.outputs or ():
        yield from output.common
        video = getattr(output, "video", None)
        for rung in video if isinstance(video, tuple) else (video,):
            yield from getattr(rung, "filters", ())


def images_of(spec: FileJob) -> tuple[ImageSource, ...]:
    """Each once."""
    return tuple(dict.fromkeys(each.image for each in filters_of(spec) if isinstance(each, OverlayFilter)))


def files_beside(spec: FileJob) -> tuple[ImageSource | SubtitleFile, ...]:
    """All that it names, each once."""
    texts = {each.key: each for source in spec.all_inputs for each in source.subtitles}
    return (*images_of(spec), *texts.values())
