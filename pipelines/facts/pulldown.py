"""Whether a track is film at 29.97 pictures a second: 3:2 pulldown, measured at places all over it.

Hard pulldown is in the pictures: of five, two next to each other are made of the fields of two film pictures. Soft
pulldown is in the times: whole pictures that last two and three fields in turn. Either is believed where every place
that tells anything tells it: what is film here and video there is neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal

import av
from av.container import InputContainer

from pipelines.facts.interlacing import Scan, ScanMeter
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile, open_input
from pipelines.source import VideoInfo

Pulldown = Literal["hard", "soft"]

PLACES = 8
SECONDS_APART = 4.0
PICTURES = 32
"""Of one place: six rounds of five, and the two that have no neighbour."""
MAX_PIXELS = 1_500_000_000
"""Pixels that are decoded for it."""
MAX_PACKETS = 600
CYCLE = 5
COMBED = (0, 1)
"""Of a round, counted from the first picture that is made of two."""
FEWEST_TOLD, FEWEST_COMBED = 15, 4
"""Pictures that told how they are scanned, and of these the combed ones."""
AGREES = 0.9
"""Share of the pictures that are as the pattern has them."""
SPEAKS_AGAINST = 8
"""Pictures that told something which is no film."""
FIELD = Fraction(1001, 60_000)
"""Seconds."""
EXACT = Fraction(1, 5)
"""How far a picture may be from its time, in fields."""
FEWEST_TURNS = 20
FEWEST_SPOTS = 2


def film_pattern(scans: Sequence[Scan | None]) -> bool | None:
    """Of pictures one after another: whether they are film with hard pulldown; None where they don't tell."""
    told = [(number, scan != "progressive") for number, scan in enumerate(scans) if scan is not None]
    combed = sum(is_combed for _, is_combed in told)
    best = max(
        sum(((number - phase) % CYCLE in COMBED) == is_combed for number, is_combed in told) for phase in range(CYCLE)
    )
    if len(told) >= FEWEST_TOLD and combed >= FEWEST_COMBED and best >= AGREES * len(told):
        return True
    return False if len(told) >= SPEAKS_AGAINST and (combed > 0 or len(told) >= FEWEST_TOLD) else None


def turns_pattern(times: Sequence[int], time_base: Fraction) -> bool | None:
    """Of presentation times in ticks: whether pictures last two and three fields in turn; None: too few to tell."""
    shown = sorted(set(times))
    lasts = [(later - earlier) * time_base / FIELD for earlier, later in pairwise(shown[: max(0, len(shown) - 4)])]
    if len(lasts) < FEWEST_TURNS:
        return None
    in_turn = sum(
        {round(one), round(other)} == {2, 3} and max(abs(one - round(one)), abs(other - round(other))) <= EXACT
        for one, other in pairwise(lasts)
    )
    return in_turn >= AGREES * (len(lasts) - 1)


def measure_pulldown(
    file: LocalFile, track: VideoInfo, kind: Pulldown, begin: float, end: float | None, limits: Limits
) -> Pulldown | None:
    """`kind`, where every place that tells says so. `begin` and `end`: seconds on the input's clock."""
    told: list[bool] = []
    most = max(FEWEST_SPOTS, min(PLACES, MAX_PIXELS // (PICTURES * max(1, track.width * track.height))))
    places = _places(begin, end, most)
    with open_input(file, limits) as container:
        stream: Any = container.streams[track.index]
        stream.codec_context.thread_type = "NONE"
        for place in places:
            found = _hard(container, stream, place) if kind == "hard" else _soft(container, stream, place)
            if found is False:
                return None
            told += [found] if found else []
    return kind if len(told) >= min(FEWEST_SPOTS, len(places)) else None


def _places(begin: float, end: float | None, most: int) -> list[float]:
    """The beginning alone of what is short, or of unknown length."""
    length = 0.0 if end is None else end - begin
    count = max(1, min(most, int(length / SECONDS_APART)))
    return [begin + length * number / count for number in range(count)]


def _hard(container: InputContainer, stream: Any, place: float) -> bool | None:
    meter = ScanMeter(patient=True)
    pictures = 0
    for packet in _packets(container, stream, place):
        try:
            frames = packet.decode()
        except av.error.FFmpegError as error:
            if isinstance(error, MemoryError):
                raise
            continue
        for frame in frames:
            if frame.pts is None or frame.pts * stream.time_base < place:
                continue
            meter.push(frame)
            pictures += 1
        if pictures >= PICTURES:
            break
    return film_pattern(meter.scans)


def _soft(container: InputContainer, stream: Any, place: float) -> bool | None:
    times: list[int] = []
    for packet in _packets(container, stream, place):
        if packet.pts is not None:
            times.append(packet.pts)
        if len(times) >= 2 * PICTURES:
            break
    return turns_pattern(times, stream.time_base)


def _packets(container: InputContainer, stream: Any, place: float) -> Iterator[Any]:
    try:
        container.seek(max(0, int(Fraction(place) / stream.time_base)), stream=stream, backward=True)
        for number, packet in enumerate(container.demux(stream)):
            if number >= MAX_PACKETS:
                return
            yield packet
    except av.error.FFmpegError as error:
        if isinstance(error, MemoryError):
            raise
        # such a place shows nothing more; the run will tell what is wrong there
