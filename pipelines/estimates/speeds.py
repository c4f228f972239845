"""How fast a device decodes and encodes, in pixels per second: what was measured, and what follows from it. Pure.

A speed is known by stage, coder and effort. It is learned from attempts that have finished, or comes from a short
measured trial; of efforts that neither has seen it is derived by `EFFORT_RATIOS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pipelines.asked.rungs import Speed as Effort
from pipelines.encoders import SPEED_OPTIONS, Options
from pipelines.hardware.encoders import API_OF, speed_options
from pipelines.source import Facts

Stage = Literal["decode", "encode"]
Basis = Literal["learned", "measured", "derived"]

EFFORTS: tuple[Effort, ...] = get_args(Effort)
USUAL: Effort = "medium"

EFFORT_RATIOS: Mapping[str, Mapping[str, float]] = {
    "libx264": dict(
        ultrafast=7.7, superfast=3.8, veryfast=2.9, faster=2.0, fast=1.1, medium=1, slow=0.7, slower=0.35, veryslow=0.2
    ),
    "libx265": dict(
        ultrafast=3.3, superfast=2.3, veryfast=1.6, faster=1.5, fast=1.3, medium=1, slow=0.5, slower=0.2, veryslow=0.1
    ),
    "libsvtav1": dict(
        ultrafast=1.9, superfast=1.9, veryfast=1.4, faster=1.4, fast=1.1, medium=1, slow=0.7, slower=0.5, veryslow=0.35
    ),
    "libvpx-vp9": dict(
        ultrafast=14, superfast=10, veryfast=2.0, faster=2.0, fast=1.6, medium=1, slow=0.9, slower=0.9, veryslow=0.5
    ),
}  # fmt: skip
"""CPU time of `medium` by that of each effort, of a fractal's pictures once; the slowest are extrapolated. On GPUs all
are alike until attempts tell."""

ENCODER_RATIOS: Mapping[str, float] = {"libx264": 1.0, "libx265": 0.45, "libsvtav1": 0.45, "libvpx-vp9": 0.22}
"""Of a software encoder that was never measured, to x264's, both at `medium`: from the same pictures' CPU time."""

DECODER_RATIOS: Mapping[str, float] = {"h264": 1.0, "hevc": 0.7, "av1": 0.8, "vp9": 0.9, "mpeg2video": 1.6, "vp8": 1.0}
"""Of a decoder that was never measured, to H.264's."""


class Speed(Facts):
    """`samples`: attempts that it was learned from; 0: only the short trial."""

    stage: Stage
    coder: str
    """An encoder's name, or the codec that is decoded."""
    effort: str = ""
    """By x264's words; empty for decoders."""
    pixels_per_second: float
    samples: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.stage, self.coder, self.effort)


@dataclass(frozen=True)
class Known:
    """A speed, and how it is known."""

    pixels_per_second: float
    basis: Basis


@dataclass(frozen=True)
class Speeds:
    """Those of one device."""

    by_key: Mapping[tuple[str, str, str], Speed]

    @classmethod
    def of(cls, *layers: Iterable[Speed]) -> Speeds:
        """Later layers win."""
        return cls({speed.key: speed for layer in layers for speed in layer})

    @property
    def all(self) -> tuple[Speed, ...]:
        return tuple(self.by_key[key] for key in sorted(self.by_key))

    def find(self, stage: Stage, coder: str, effort: str = "") -> Known | None:
        """None when nothing is known that it could be derived from."""
        found = self.by_key.get((stage, coder, effort))
        if found is not None:
            return Known(found.pixels_per_second, "learned" if found.samples else "measured")
        derived = self._other_codec(coder) if stage == "decode" else self._other_effort(coder, effort)
        return None if derived is None else Known(derived, "derived")

    def _other_effort(self, encoder: str, effort: str) -> float | None:
        """From the best known effort of the same encoder: the one learned from most."""
        known = [each for each in self.by_key.values() if each.stage == "encode" and each.coder == encoder]
        if not known:
            return self._other_encoder(encoder, effort)
        best = max(known, key=lambda each: (each.samples, each.effort == USUAL, each.effort))
        ratios = EFFORT_RATIOS.get(encoder, {})
        return best.pixels_per_second * ratios.get(effort, 1.0) / ratios.get(best.effort, 1.0)

    def _other_encoder(self, encoder: str, effort: str) -> float | None:
        """QSV has the engines that VAAPI has; the CPU's encoders are compared with x264."""
        if encoder.endswith("_qsv"):
            same = self.find("encode", encoder.replace("_qsv", "_vaapi"), effort)
            return None if same is None else same.pixels_per_second
        usual = self.find("encode", "libx264", USUAL) if encoder in ENCODER_RATIOS and encoder != "libx264" else None
        if usual is None:
            return None
        return usual.pixels_per_second * ENCODER_RATIOS[encoder] * EFFORT_RATIOS[encoder].get(effort, 1.0)

    def _other_codec(self, codec: str) -> float | None:
        known = self.by_key.get(("decode", "h264", ""))
        if known is None or codec not in DECODER_RATIOS:
            return None
        return known.pixels_per_second * DECODER_RATIOS[codec]


def effort_of(encoder: str, options: Options) -> str:
    """The effort that an encoder's options stand for; efforts with the same options are one, the first of them."""
    for effort in EFFORTS:
        asked = _options_of(encoder, effort)
        if asked and all(options.get(name) == value for name, value in asked.items()):
            return effort
    return USUAL


def same_effort(encoder: str, effort: str) -> str:
    """The name that `effort` is known by for this encoder."""
    return effort_of(encoder, _options_of(encoder, effort))


def _options_of(encoder: str, effort: str) -> Options:
    if encoder in SPEED_OPTIONS:
        return SPEED_OPTIONS[encoder](effort)
    return speed_options(encoder, effort) if encoder in API_OF else {}


LEARNING_RATE = 0.3
"""Weight of the newest attempt in the exponential average, which is of logarithms: twice as fast and half as fast weigh
the same."""
MOST_AT_ONCE = 10.0
"""An attempt that was so many times off tells of something else as well."""


def learned(speed: Speed, ratio: float, share: float) -> Speed:
    """`speed` after an attempt that took `ratio` times what it foretold; `share`: its part of that (0-1).

    The first attempt outweighs a trial.
    """
    rate = LEARNING_RATE if speed.samples else 1.0
    bounded = min(MOST_AT_ONCE, max(1 / MOST_AT_ONCE, ratio))
    pixels_per_second = speed.pixels_per_second * math.exp(-rate * share * math.log(bounded))
    return speed.model_copy(update={"pixels_per_second": pixels_per_second, "samples": speed.samples + 1})
