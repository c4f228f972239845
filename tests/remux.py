"""Files written again packet by packet, with something changed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import av

Change = Callable[[Any, str, int], Any]
"""Gets a packet, the type of its track and its number there; gives the packet to write."""


def remux(
    source: Path, target: Path, change: Change = lambda packet, kind, number: packet, *,
    empty: Collection[str] = (), options: dict[str, str] | None = None,
) -> Path:  # fmt: skip
    """Writes `source` again; tracks of the types in `empty` get their headers only."""
    with (
        av.open(str(source)) as given,
        av.open(str(target), "w", format="mpegts" if target.suffix == ".ts" else None, options=options or {}) as made,
    ):
        streams = {stream.index: made.add_stream_from_template(stream) for stream in given.streams}
        numbers = dict.fromkeys(streams, 0)
        for packet in given.demux():
            kind, index = packet.stream.type, packet.stream.index
            if packet.dts is None or kind in empty:
                continue
            changed = change(packet, kind, numbers[index])
            numbers[index] += 1
            changed.stream = streams[index]
            made.mux(changed)
    return target


def replaced(source: Path, target: Path, old: bytes, new: bytes) -> Path:
    """The same bytes with `old` overwritten wherever it stands."""
    data = source.read_bytes()
    assert old in data
    assert len(old) == len(new)
    target.write_bytes(data.replace(old, new))
    return target
