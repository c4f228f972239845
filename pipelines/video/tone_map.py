"""The table that turns an HDR picture into SDR: R'G'B' of PQ or HLG in, R'G'B' of BT.709 out, for FFmpeg's haldclut.

Light is compressed by the brightest of a pixel's channels and its other channels with it: proportions, and so hue and
saturation, stay. Colours outside BT.709 lose saturation, at the same luminance, until they are inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from av.filter import Graph
from av.video.frame import VideoFrame

from pipelines.filters import HdrTransfer, ToneMap
from pipelines.video.tone_curve import HLG_SYSTEM_GAMMA, SDR_GAMMA, USUAL_PEAK, Array, hlg_scene, pq_light, tone_mapped

LEVEL = 8
"""haldclut's: nodes of each axis are its square, the picture's sides its cube."""
FORMAT = "gbrp12le"
_TOP = 4095

_WHITE = (0.3127, 0.3290)
CHROMATICITIES: dict[str, tuple[tuple[float, float], tuple[float, float], tuple[float, float]]] = {
    "bt709": ((0.640, 0.330), (0.300, 0.600), (0.150, 0.060)),
    "bt2020": ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046)),
    "smpte432": ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060)),
}
"""x and y of red, green and blue, all with D65 as white; other primaries are taken for BT.2020's."""


def to_xyz(primaries: str) -> Array:
    """Linear RGB to CIE XYZ, white at Y = 1."""
    corners = CHROMATICITIES.get(primaries, CHROMATICITIES["bt2020"])
    columns = np.array([[x / y, 1.0, (1 - x - y) / y] for x, y in corners]).T
    white = np.array([_WHITE[0] / _WHITE[1], 1.0, (1 - _WHITE[0] - _WHITE[1]) / _WHITE[1]])
    scaled: Array = columns * np.linalg.solve(columns, white)
    return scaled


def convert(signals: Array, step: ToneMap) -> Array:
    """SDR's R'G'B' (0-1, … × 3) of HDR's."""
    from_rgb = to_xyz(step.primaries)
    light = _light(signals, step, from_rgb[1])
    brightest = np.maximum(light.max(axis=-1, keepdims=True), 1e-6)
    mapped = light * (tone_mapped(brightest, step.peak) / brightest)
    linear = _inside(mapped @ (np.linalg.inv(to_xyz("bt709")) @ from_rgb).T)
    signal: Array = np.clip(linear, 0, 1) ** (1 / SDR_GAMMA)
    return signal


def _light(signals: Array, step: ToneMap, luminance: Array) -> Array:
    """Linear light of the display in cd/m²."""
    if step.transfer == "smpte2084":
        return pq_light(signals)
    scene = hlg_scene(signals)
    weight: Array = np.maximum(scene @ luminance, 1e-9)[..., None] ** (HLG_SYSTEM_GAMMA - 1)
    return USUAL_PEAK * scene * weight


def _inside(linear: Array) -> Array:
    """Colours moved towards the grey of their luminance until no channel is below 0 or above 1."""
    grey = np.clip(linear @ to_xyz("bt709")[1], 0, 1)[..., None]
    away = linear - grey
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(away < 0, -grey / away, np.where(away > 0, (1 - grey) / away, np.inf))
    kept = np.minimum(room.min(axis=-1, keepdims=True), 1.0)
    inside: Array = grey + away * kept
    return inside


@lru_cache(maxsize=4)
def _table(transfer: HdrTransfer, primaries: str, peak: int) -> tuple[bytes, bytes, bytes]:
    """Rows of green, blue and red, without padding; red changes fastest."""
    step = ToneMap(width=2, height=2, pixel_format=FORMAT, transfer=transfer, primaries=primaries, peak=peak)
    axis = np.linspace(0, 1, LEVEL**2)
    blue, green, red = np.meshgrid(axis, axis, axis, indexing="ij")
    nodes = convert(np.stack([red, green, blue], axis=-1).reshape(-1, 3), step)
    values = np.round(nodes * _TOP).astype("<u2").reshape(LEVEL**3, LEVEL**3, 3)
    return values[..., 1].tobytes(), values[..., 2].tobytes(), values[..., 0].tobytes()


def lookup_picture(step: ToneMap) -> VideoFrame:
    """The table as the still picture that haldclut takes it from."""
    rows = _table(step.transfer, step.primaries, step.peak)
    return _picture(LEVEL**3, [np.frombuffer(rows[channel], "<u2") for channel in _order()])


def _picture(side: int, planes: Sequence[np.ndarray[Any, Any]]) -> VideoFrame:
    frame = VideoFrame(side, side, FORMAT)
    for plane, values in zip(frame.planes, planes, strict=True):
        padded = np.zeros((side, plane.line_size // 2), "<u2")
        padded[:, :side] = values.reshape(side, side)
        plane.update(padded.tobytes())
    frame.pts, frame.time_base = 0, Fraction(1, 1000)
    return frame


@lru_cache(maxsize=1)
def _order() -> tuple[int, ...]:
    """Which of green, blue and red each plane of a table has to hold.

    FFmpeg 8.1 hands a planar table's second plane out as the third, and the third as the second; one that does not is
    used as well. Found by a table of one colour.
    """
    side = 8
    colour = (1000, 2000, 3000)
    flat = [np.full(side * side, value, "<u2") for value in colour]
    graph: Any = Graph()
    about = {"video_size": f"{side}x{side}", "pix_fmt": FORMAT, "time_base": "1/1000", "pixel_aspect": "1/1"}
    sources = [graph.add("buffer", **about) for _ in range(2)]
    look, sink = graph.add("haldclut"), graph.add("buffersink")
    for number, source in enumerate(sources):
        source.link_to(look, 0, number)
    look.link_to(sink)
    graph.configure()
    for source in reversed(sources):
        source.push(_picture(side, flat))
        source.push(None)
    handed_out = [int(np.frombuffer(plane, "<u2")[0]) for plane in sink.pull().planes]
    return tuple(min(range(3), key=lambda plane: abs(handed_out[plane] - value)) for value in colour)
