"""HDR light to SDR's: how bright a source gets, and the curve that brings it under SDR's white. Pure, numpy only.

The reference white of 203 cd/m² (ITU-R BT.2408) is what SDR's nominal peak stands for. Below a knee nothing changes;
above it a rational curve in PQ's own domain (where equal steps look equal) goes on with the same slope and reaches
SDR's peak where the source's is: it never turns flat, so highlights keep their shape. The knee is that of ITU-R
BT.2390's curve, whose Hermite spline ends flat. White of 203 cd/m² comes out at 0.87 of SDR's signal for a source of
1000 cd/m², and at 0.78 for one of 10,000.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.source import Colour

Array = np.ndarray[Any, np.dtype[np.float64]]

REFERENCE_WHITE = 203.0
"""cd/m², of HDR's graphics white and of SDR's peak."""
USUAL_PEAK = 1000
"""cd/m², where a source says nothing that makes sense; HLG's nominal peak."""
LOWEST_PEAK, HIGHEST_PEAK = 100, 10_000
"""cd/m²: what a mastering display or the brightest pixel can be."""
HLG_SYSTEM_GAMMA = 1.2
"""At 1000 cd/m² (ITU-R BT.2100)."""
SDR_GAMMA = 2.4
"""ITU-R BT.1886, with a black of zero."""
LOWEST_KNEE = 50.0
"""cd/m². Sources of several thousand cd/m² would otherwise darken faces for highlights that are rarely there."""


def source_peak(colour: Colour) -> int:
    """The brightest that the source gets, in cd/m²: its content's own maximum, else its mastering display's."""
    if colour.transfer == "arib-std-b67":
        return USUAL_PEAK
    told = [colour.max_cll[0]] if colour.max_cll is not None else []
    if colour.mastering_display is not None:
        told.append(round(colour.mastering_display.max_luminance / 10_000))
    return next((peak for peak in told if LOWEST_PEAK <= peak <= HIGHEST_PEAK), USUAL_PEAK)


def pq_light(signal: Array) -> Array:
    """SMPTE ST 2084: cd/m² of a signal (0-1)."""
    power = signal ** (32 / 2523)
    return 10_000 * (np.maximum(power - 3424 / 4096, 0) / (2413 / 128 - 2392 / 128 * power)) ** (16384 / 2610)


def pq_signal(light: Array) -> Array:
    """The inverse of `pq_light`."""
    power = (np.clip(light, 0, 10_000) / 10_000) ** (2610 / 16384)
    return ((3424 / 4096 + 2413 / 128 * power) / (1 + 2392 / 128 * power)) ** (2523 / 32)


def hlg_scene(signal: Array) -> Array:
    """ARIB STD-B67: scene light (0-1) of a signal (0-1)."""
    lower = signal**2 / 3
    upper = (np.exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12
    return np.where(signal <= 0.5, lower, upper)


def tone_mapped(light: Array, peak: float) -> Array:
    """cd/m² of a source of that peak, as fractions of SDR's white (0-1)."""
    if peak <= REFERENCE_WHITE:
        return np.minimum(light / REFERENCE_WHITE, 1.0)
    top, white = (float(pq_signal(np.array(value))) for value in (peak, REFERENCE_WHITE))
    knee = max(1.5 * white - 0.5 * top, float(pq_signal(np.array(LOWEST_KNEE))))
    signal = pq_signal(light)
    above = np.maximum(signal - knee, 0)
    bend = 1 / (white - knee) - 1 / (top - knee)
    bent = np.where(signal <= knee, signal, knee + above / (1 + above * bend))
    return np.minimum(pq_light(bent) / REFERENCE_WHITE, 1.0)
