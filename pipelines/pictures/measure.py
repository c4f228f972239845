"""How long an input is that does not say so: its packets are read once, nothing is decoded."""

from __future__ import annotations

from fractions import Fraction

import av

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input, read_packets
from pipelines.rendition import PictureRendition, Plan
from pipelines.timestamps import microseconds
from pipelines.tracks import Span


def measured_end(file: LocalFile, stream: int, limits: Limits) -> Fraction | None:
    """When the last packet of a track ends, in seconds on the input's clock; None where no packet says when it is."""
    end: Fraction | None = None
    with open_input(file, limits) as container:
        track = container.streams[stream]
        time_base = track.time_base or Fraction(1, 90_000)
        try:
            for packet in read_packets(container, [track]):
                time = packet.pts if packet.pts is not None else packet.dts
                if time is not None and packet.size:
                    end = max(end or Fraction(0), (time + (packet.duration or 0)) * time_base)
        except av.error.FFmpegError:
            # what can be read is what there is: the run itself judges whether that is enough
            return end
    return end


def taken_seconds(
    plan: Plan, rendition: PictureRendition, file: LocalFile, span: Span, limits: Limits
) -> Fraction | None:
    """How much is taken of the input: as the plan says, else measured where the pictures depend on it."""
    if plan.duration_seconds is not None:
        return microseconds(plan.duration_seconds)
    if not rendition.measures_duration:
        return None
    end = measured_end(file, rendition.stream, limits)
    ends = [each for each in (end, span.end) if each is not None]
    return max(Fraction(0), min(ends) - span.start) if ends else Fraction(0)
