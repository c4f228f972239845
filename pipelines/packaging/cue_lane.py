"""Subtitles of a ladder: WebVTT as one file, and in segments on the grid of the pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
from av.packet import Packet

from pipelines.mux import MUX_ERRORS, Writer, output_error
from pipelines.packaging.lanes import Sink
from pipelines.packaging.segments import Segment, SegmentFiles
from pipelines.rendition import OutputPlan

WHOLE_NAME = "subtitles.vtt"


@dataclass(frozen=True)
class TextCue:
    """Seconds on the output's clock."""

    begin: Fraction
    end: Fraction
    text: str
    settings: str = ""


def webvtt(cues: Iterable[TextCue], head: str = "") -> str:
    """A WebVTT file; `head`: more lines for its header."""
    blocks = ["WEBVTT" + (f"\n{head}" if head else "")]
    for cue in cues:
        times = f"{_stamp(cue.begin)} --> {_stamp(cue.end)}"
        blocks.append(f"{times} {cue.settings}".rstrip() + "\n" + _payload(cue.text))
    return "\n\n".join(blocks) + "\n"


def _payload(text: str) -> str:
    """A cue's lines: an empty one would end it, and an arrow would begin another."""
    lines = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    return "\n".join(lines).replace("-->", "--&gt;")


def _stamp(seconds: Fraction) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


class CueLane(Writer):
    """Collects cues. They are few, and a segment needs those that began long before it."""

    def __init__(self, plan: OutputPlan, folder: Path, files: SegmentFiles) -> None:
        self.written = files
        self.segments: list[Segment] = []
        self.whole_path: str | None = None
        self._cues: list[TextCue] = []
        super().__init__(plan, folder)

    def _open(self) -> Any:
        return av.open(Sink(), "w", format="webvtt")

    def _put(self, packet: Packet[Any]) -> None:
        if packet.pts is None:
            return
        time_base = packet.time_base or Fraction(1, 1000)
        begin = packet.pts * time_base
        end = begin + (packet.duration or 0) * time_base
        settings = ""
        if packet.has_sidedata("webvtt_settings"):
            settings = bytes(packet.get_sidedata("webvtt_settings")).decode(errors="replace")
        self._cues.append(TextCue(begin, end, bytes(packet).decode(errors="replace"), " ".join(settings.split())))
        self.bytes += packet.size

    def write_files(self, cuts: list[Fraction], *, segmented: bool, whole: bool, head: str) -> None:
        """After closing: segments that end at the last n - 1 of `cuts`, one file of all, or both."""
        cues = sorted(self._cues, key=lambda cue: (cue.begin, cue.end))
        try:
            if whole:
                self.whole_path = self.written.write_file(WHOLE_NAME, webvtt(cues).encode())
            for number, (begin, end) in enumerate(pairwise(cuts), 1):
                shown = [cue for cue in cues if cue.begin < end and cue.end > begin]
                data = webvtt(shown, head).encode()
                if segmented:
                    path, offset = self.written.write(number, data)
                    self.segments.append(Segment(begin, end, path, offset, len(data)))
                else:
                    self.segments.append(Segment(begin, end, WHOLE_NAME, 0, len(data)))
        except MUX_ERRORS as error:
            raise output_error(error, self.plan.path) from error
