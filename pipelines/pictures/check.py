"""Pictures that were written, looked at again: each is there and whole, the large ones decode at their size."""

from __future__ import annotations

from pathlib import Path

import av

from pipelines.errors import VerifyFailed, cause
from pipelines.rendition import OutputPlan, PictureRendition
from pipelines.result import OutputResult

DECODED = 8
"""Files of an output that are decoded; of the others, beginning and end are looked at."""
MARKS: dict[str, tuple[bytes, bytes]] = {
    ".jpg": (b"\xff\xd8\xff", b"\xff\xd9"),
    ".webp": (b"RIFF", b""),
    ".gif": (b"GIF8", b";"),
    ".vtt": (b"WEBVTT", b"\n"),
}
"""What files begin and end with."""


def verify_pictures(output: OutputPlan, rendition: PictureRendition, written: OutputResult, folder: Path) -> None:
    """Raises VerifyFailed for the first file that is not what it should be."""
    decoded = 0
    for path in written.all_files:
        content = (folder / path).read_bytes() if (folder / path).exists() else b""
        begin, end = MARKS[Path(path).suffix]
        whole = content.startswith(begin) and content.endswith(end)
        if Path(path).suffix == ".webp":
            whole = whole and len(content) == 8 + int.from_bytes(content[4:8], "little")
        if not content or not whole:
            raise VerifyFailed(f"{path} is {'cut short' if content else 'empty'}", stage="verify", path=path)
        if not path.endswith(".vtt") and decoded < DECODED:
            decoded += 1
            _check_decodes(folder / path, path, rendition)


def _check_decodes(file: Path, path: str, rendition: PictureRendition) -> None:
    if rendition.form == "webp":
        return  # FFmpeg writes animated WebP, and does not read it
    try:
        with av.open(str(file.absolute())) as container:
            frame = next(container.decode(video=0), None)
    except (av.error.FFmpegError, ValueError) as error:
        raise VerifyFailed(f"{path} does not open: {cause(error)}", stage="verify", path=path) from error
    if frame is None:
        raise VerifyFailed(f"{path} shows nothing", stage="verify", path=path)
    alone = rendition.form in ("poster", "gif")
    if alone and (frame.width, frame.height) != (rendition.width, rendition.height):
        raise VerifyFailed(
            f"{path} is {frame.width}×{frame.height} where {rendition.width}×{rendition.height} was planned",
            stage="verify",
            path=path,
        )
