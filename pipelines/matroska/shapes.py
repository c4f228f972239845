"""Pixel shapes in Matroska and WebM headers, which FFmpeg's muxer writes only where a caller can tell it: PyAV can't.

The header has room: FFmpeg leaves some behind the list of its parts (SeekHead). What lies between that room and the
description of the tracks moves into it, so that nothing behind them moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from pipelines.errors import OutputFailed
from pipelines.matroska.ebml import VOID, Element, element, elements, number, parent, void

SEGMENT = b"\x18\x53\x80\x67"
SEEK_HEAD, SEEK, SEEK_ID, SEEK_POSITION = b"\x11\x4d\x9b\x74", b"\x4d\xbb", b"\x53\xab", b"\x53\xac"
TRACKS, TRACK, TRACK_NUMBER, VIDEO = b"\x16\x54\xae\x6b", b"\xae", b"\xd7", b"\xe0"
PIXEL_WIDTH, PIXEL_HEIGHT = b"\xb0", b"\xba"
DISPLAY_WIDTH, DISPLAY_HEIGHT, DISPLAY_UNIT = b"\x54\xb0", b"\x54\xba", b"\x54\xb2"
HEAD_BYTES = 1 << 20
"""The tracks are described within these: only attachments, which come later, are large."""
ASPECT_UNIT = 3
"""The display size is an aspect ratio. WebM has only pixels, which say it less exactly."""


def write_pixel_shapes(path: Path, shapes: Mapping[int, Fraction], *, webm: bool) -> None:
    """Puts sample aspect ratios into the header of a file that is written. `shapes`: by track number, from 1.

    OutputFailed where the header is not as FFmpeg's muxer writes it.
    """
    with path.open("r+b") as file:
        head = file.read(HEAD_BYTES)
        try:
            at, changed = _changed(head, shapes, webm=webm)
        except (ValueError, StopIteration) as error:
            message = f"the header of {path.name} has no room for the shape of pixels"
            raise OutputFailed(message, stage="mux", path=path.name) from error
        file.seek(at)
        file.write(changed)


def _changed(head: bytes, shapes: Mapping[int, Fraction], *, webm: bool) -> tuple[int, bytes]:
    """Where in the file what is written anew begins, and that. It is as long as what was there."""
    segment = next(each for each in elements(head) if each.kind == SEGMENT)
    parts: list[Element] = []
    for each in elements(head, segment.body, len(head)):
        parts.append(each)
        if each.kind == TRACKS:
            break
    seek, room, tracks = parts[0], parts[1], parts[-1]
    if (seek.kind, room.kind, tracks.kind) != (SEEK_HEAD, VOID, TRACKS) or tracks.end > len(head):
        raise ValueError("another order of parts")
    described = _described(head, tracks, shapes, webm=webm)
    grown = len(described) - (tracks.end - tracks.begin)
    moved = range(room.end - segment.body, tracks.begin - segment.body + 1)
    listed = parent(SEEK_HEAD, [_seek(head, each, moved, grown) for each in elements(head, seek.body, seek.end)])
    left = void(tracks.end - seek.begin - len(listed) - len(described) - (tracks.begin - room.end))
    return seek.begin, listed + left + head[room.end : tracks.begin] + described


def _seek(head: bytes, listed: Element, moved: range, grown: int) -> bytes:
    """An entry of the list, for a part that has moved by `grown` bytes to the front if its position is in `moved`."""
    if listed.kind != SEEK:
        return head[listed.begin : listed.end]
    inner = list(elements(head, listed.body, listed.end))
    at = next(int.from_bytes(head[each.body : each.end]) for each in inner if each.kind == SEEK_POSITION)
    kept = [head[each.begin : each.end] for each in inner if each.kind != SEEK_POSITION]
    return parent(SEEK, [*kept, number(SEEK_POSITION, at - grown if at in moved else at)])


def _described(head: bytes, tracks: Element, shapes: Mapping[int, Fraction], *, webm: bool) -> bytes:
    children = []
    for track in elements(head, tracks.body, tracks.end):
        inner = list(elements(head, track.body, track.end)) if track.kind == TRACK else []
        numbered = next((int.from_bytes(head[e.body : e.end]) for e in inner if e.kind == TRACK_NUMBER), 0)
        if numbered not in shapes:
            children.append(head[track.begin : track.end])
            continue
        parts = [
            _shaped(head, each, shapes[numbered], webm=webm) if each.kind == VIDEO else head[each.begin : each.end]
            for each in inner
        ]
        children.append(parent(TRACK, parts))
    return parent(TRACKS, children)


def _shaped(head: bytes, video: Element, shape: Fraction, *, webm: bool) -> bytes:
    inner = list(elements(head, video.body, video.end))
    width, height = (
        next(int.from_bytes(head[each.body : each.end]) for each in inner if each.kind == kind)
        for kind in (PIXEL_WIDTH, PIXEL_HEIGHT)
    )
    aspect = shape * width / height
    if webm:
        shown = (round(width * shape), height) if shape > 1 else (width, max(1, round(height / shape)))
    else:
        shown = aspect.as_integer_ratio()
    said = [number(DISPLAY_WIDTH, shown[0]), number(DISPLAY_HEIGHT, shown[1])]
    if not webm:
        said.append(element(DISPLAY_UNIT, bytes([ASPECT_UNIT])))
    kept = [
        head[each.begin : each.end] for each in inner if each.kind not in (DISPLAY_WIDTH, DISPLAY_HEIGHT, DISPLAY_UNIT)
    ]
    return parent(VIDEO, [*kept, *said])
