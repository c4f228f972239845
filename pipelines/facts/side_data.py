"""Side data of frames, whatever its type.

PyAV lists none of a frame's side data where it lacks a name for the type of one of it: a photo's Exif block would so
hide how the photo is mirrored, a second eye's view the mastering display. Types that it lacks get names here.
"""

from __future__ import annotations

from typing import Any

from av.sidedata import sidedata


def _named(kinds: Any, value: int) -> Any:
    """A member for a type of FFmpeg's that PyAV's enumeration was written before."""
    member = object.__new__(kinds)
    member._name_, member._value_ = f"TYPE_{value}", value
    return kinds._value2member_map_.setdefault(value, member)


Kinds: Any = sidedata.Type
Kinds._missing_ = classmethod(_named)


def side_data(frame: Any) -> dict[str, bytes]:
    """A frame's side data by PyAV's type names."""
    return {data.type.name: bytes(data) for data in frame.side_data}
