"""`verify`: what was written, opened again and compared with the plan. A file that fails here is never published."""

from __future__ import annotations

from pathlib import Path

import av

from pipelines.errors import VerifyFailed, cause
from pipelines.packaging.check import verify_package
from pipelines.pictures.check import verify_pictures
from pipelines.rendition import CopyRendition, OutputPlan, Plan, SubtitleRendition
from pipelines.result import OutputResult, Result
from pipelines.size_guard import check_sizes

DURATION_SLACK_SECONDS = 0.5


def verify(plan: Plan, result: Result, folder: Path) -> None:
    """Raises VerifyFailed for the first file that is not what the plan and the run say.

    LargerThanSource for one that is larger than the job allows.
    """
    check_sizes(plan.size_limit, result.outputs)
    for output, written in zip(plan.outputs, result.outputs, strict=True):
        if output.pictures is not None:
            verify_pictures(output, output.pictures, written, folder)
        elif output.packaging is None:
            _verify_file(output, written, folder / output.path)
        else:
            verify_package(output, written, folder)


def _verify_file(output: OutputPlan, written: OutputResult, path: Path) -> None:
    if output.type == "subtitles" and path.exists():
        return  # text: there may be none of it in a clip
    size = path.stat().st_size if path.exists() else 0
    if size == 0:
        raise VerifyFailed(f"{output.path} is empty", stage="verify", path=output.path)
    try:
        # a transport stream of a few packets is not recognised by its bytes
        form = output.muxer if output.muxer == "mpegts" else None
        with av.open(str(path.absolute()), format=form, metadata_errors="replace") as container:
            found = sorted(stream.type for stream in container.streams if stream.type in ("video", "audio"))
            duration = None if container.duration is None else container.duration / av.time_base
            frames = {stream.index: stream.frames for stream in container.streams}
    except (av.error.FFmpegError, ValueError) as error:
        raise VerifyFailed(f"{output.path} does not open: {cause(error)}", stage="verify", path=output.path) from error
    pairs = list(zip(output.renditions, written.renditions, strict=True))
    expected = sorted(_media(rendition) for rendition, _ in pairs if _media(rendition) in ("video", "audio"))
    # a track of which nothing came (allowed by the job) may be left out by the muxer
    filled = sorted(
        _media(rendition) for rendition, track in pairs if _media(rendition) in ("video", "audio") and track.packets
    )
    if found not in (expected, filled):
        raise VerifyFailed(
            f"{output.path} has {', '.join(found) or 'nothing'} where {', '.join(expected)} was planned",
            stage="verify",
            path=output.path,
        )
    if duration is not None and written.duration_seconds is not None:
        slack = max(DURATION_SLACK_SECONDS, written.duration_seconds * 0.01)
        # subtitles may stay longer than the picture and the sound
        longest = max(written.duration_seconds, *(track.duration_seconds for track in written.renditions))
        if not written.duration_seconds - slack <= duration <= longest + slack:
            raise VerifyFailed(
                f"{output.path} lasts {duration:.2f} s, {written.duration_seconds:.2f} s were written",
                stage="verify",
                path=output.path,
            )
    for index, (rendition, track) in enumerate(pairs):
        counted = frames.get(index, 0)
        if rendition.kind == "video" and counted and counted != track.packets:
            raise VerifyFailed(
                f"{output.path} counts {counted} pictures, {track.packets} were written",
                stage="verify",
                path=output.path,
            )


def _media(rendition: object) -> str:
    if isinstance(rendition, CopyRendition):
        return "video" if rendition.media == "picture" else rendition.media
    return "subtitle" if isinstance(rendition, SubtitleRendition) else str(getattr(rendition, "kind", ""))
