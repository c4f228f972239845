"""Planned filters of sound as FFmpeg's: channels, gain, limiters, and the conversion to the encoder's format."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from av.audio.frame import AudioFrame

from pipelines.filters import ChannelMap, Filter, Limit, Normalise, Resample, SoundFade, Tempo
from pipelines.sound.downmix import LAYOUTS, Matrix, matrix, speakers
from pipelines.steps import Step

OVERSAMPLED = 4
"""Times the sample rate at which true peaks are limited: what lies between samples is a sample there."""
SLOWEST_TEMPO, FASTEST_TEMPO = Fraction(1, 2), Fraction(2)
"""Of one filter."""
OVERSHOOT_DB = 0.2
"""What the way back to the sample rate may add to peaks."""


def changes_samples(step: Filter) -> bool:
    """Whether a step does something to sound that already has the encoder's rate, layout and format."""
    if isinstance(step, Normalise):
        return step.gain_db != 0
    return isinstance(step, ChannelMap)


def timed_steps(filters: Sequence[Filter], sample_rate: int, sample_format: str) -> list[Step]:
    """For sound that is whole and in its place: what depends on time. Empty: nothing does."""
    steps: list[Step] = []
    for step in filters:
        if isinstance(step, Tempo):
            steps += _tempo(step.pace, sample_rate)
        elif isinstance(step, SoundFade):
            steps += _faded(step)
    return [*steps, ("aformat", {"sample_fmts": sample_format})] if steps else []


def _tempo(pace: Fraction, sample_rate: int) -> list[Step]:
    """In steps of 0.5 to 2: beyond 2, samples would be left out instead of blended.

    A slower tempo stretches the half window before its first one's middle, which so much silence before it makes up
    for: without it sound came early (measured: by 21 ms at 0.5, 55 ms at 0.25).
    """
    parts: list[Fraction] = []
    while not SLOWEST_TEMPO <= pace <= FASTEST_TEMPO:
        parts.append(FASTEST_TEMPO if pace > 1 else SLOWEST_TEMPO)
        pace /= parts[-1]
    half_window = (1 << (sample_rate // 24 - 1).bit_length()) // 2
    steps: list[Step] = []
    for part in (*parts, pace):
        early = int((1 - part) * half_window)
        if early > 0:
            steps.append(("adelay", {"delays": f"{early}S", "all": "1"}))
        if part != 1:
            steps.append(("atempo", {"tempo": f"{float(part):.12f}"}))
    # times are lost where one atempo follows another
    return [*steps, ("asetpts", {"expr": "N/SR/TB"})]


def _faded(step: SoundFade) -> list[Step]:
    steps: list[Step] = []
    if step.in_seconds:
        steps.append(("afade", {"type": "in", "start_time": "0", "duration": f"{step.in_seconds:.6f}"}))
    if step.out_seconds and step.lasts_seconds is not None:
        begin = max(0.0, step.lasts_seconds - step.out_seconds)
        told = {"start_time": f"{begin:.6f}", "duration": f"{step.lasts_seconds - begin:.6f}"}
        steps.append(("afade", {"type": "out", **told}))
    return steps


def sound_steps(filters: Sequence[Filter], frame: AudioFrame) -> list[Step]:
    """For frames like this one."""
    resample = next(step for step in filters if isinstance(step, Resample))
    chosen = next((step.channels for step in filters if isinstance(step, ChannelMap)), None)
    names = speakers(frame.layout.name, frame.layout.nb_channels)
    steps: list[Step] = []
    if chosen is not None:
        steps += mix(_one_hot(chosen, len(names)), resample.layout)
    elif frame.layout.name != resample.layout:
        steps += mix(matrix(names, resample.layout, scaled=resample.scaled), resample.layout)
    for step in filters:
        if isinstance(step, Limit):
            steps.append(_limiter(step.ceiling_dbfs))
        elif isinstance(step, Normalise) and step.gain_db:
            steps += _normalised(step, resample.sample_rate)
    options = {"osr": str(resample.sample_rate), "osf": resample.sample_format, "dither_method": "triangular_hp"}
    return [*steps, ("aresample", options)]


def _one_hot(channels: Sequence[int], count: int) -> Matrix:
    """Channels that are not there any more, after a change on the way, are silent."""
    return tuple(tuple(float(place == channel) for place in range(count)) for channel in channels)


def _limiter(ceiling_dbfs: float) -> Step:
    """`latency` takes the delay of its look-ahead out again."""
    ceiling = f"{10 ** (ceiling_dbfs / 20):.6f}"
    return ("alimiter", {"limit": ceiling, "level": "0", "latency": "1", "attack": "5", "release": "50"})


def _normalised(step: Normalise, sample_rate: int) -> list[Step]:
    gain: Step = ("volume", {"volume": f"{step.gain_db:.3f}dB", "precision": "double"})
    if not step.limits:
        return [gain]
    up = {"osr": str(OVERSAMPLED * sample_rate), "osf": "dblp"}
    return [gain, ("aresample", up), _limiter(step.true_peak_dbtp - OVERSHOOT_DB)]


def mix(gains: Matrix, layout: str) -> list[Step]:
    """The filters that apply a matrix. Channels that only change their places are moved whole: numbers stay exact."""
    places = [_place_of(row) for row in gains]
    if None not in places:
        return [("channelmap", {"map": "|".join(map(str, places)), "channel_layout": layout})]
    rows = (
        f"{output}=" + ("+".join(f"{gain:.6f}*c{number}" for number, gain in enumerate(row) if gain) or "0*c0")
        for output, row in zip(LAYOUTS[layout], gains, strict=True)
    )
    return [("aformat", {"sample_fmts": "fltp"}), ("pan", {"args": "|".join((layout, *rows))})]


def _place_of(row: tuple[float, ...]) -> int | None:
    """The one source channel that an output channel is, unchanged."""
    heard = [number for number, gain in enumerate(row) if gain]
    return heard[0] if len(heard) == 1 and row[heard[0]] == 1.0 else None
