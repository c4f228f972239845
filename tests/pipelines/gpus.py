"""GPUs as values: a whole one, and ones that lack something."""

from __future__ import annotations

from typing import Any

from pipelines.devices import Capability, Device

MODES = ("cqp", "icq", "cbr", "vbr", "qvbr")
FILTERS = (
    "scale_vaapi",
    "deinterlace_vaapi",
    "transpose_vaapi",
    "tonemap_vaapi",
    "pad_vaapi",
    "hwupload",
    "hwdownload",
)
PLANAR = {8: ("yuv420p",), 10: ("yuv420p10le",)}
SURFACE = {8: ("nv12",), 10: ("p010le",)}


def decodes(codec: str, bit_depth: int = 8, **changes: Any) -> Capability:
    facts = {"pixel_formats": PLANAR[bit_depth], "min_size": (16, 16), "max_size": (4096, 4096), **changes}
    return Capability(direction="decode", codec=codec, api="vaapi", bit_depth=bit_depth, **facts)


def encodes(codec: str, bit_depth: int = 8, api: str = "vaapi", **changes: Any) -> Capability:
    facts = {
        "encoder": f"{codec}_{api}", "pixel_formats": SURFACE[bit_depth], "rate_controls": MODES,
        "min_size": (128, 128), "max_size": (4096, 4096), **changes,
    }  # fmt: skip
    return Capability(direction="encode", codec=codec, api=api, bit_depth=bit_depth, **facts)


CAPABILITIES = (
    decodes("h264"), decodes("hevc"), decodes("hevc", 10), decodes("vp9"),
    encodes("h264"), encodes("hevc"), encodes("hevc", 10),
)  # fmt: skip


def gpu(*capabilities: Capability, **changes: Any) -> Device:
    """H.264 and HEVC (8 and 10 bits) both ways, VP9 in; all filters."""
    facts: dict[str, Any] = {
        "id": "pci-0000:03:00.0", "kind": "vaapi", "path": "/dev/dri/renderD128", "name": "A GPU",
        "capabilities": capabilities or CAPABILITIES, "filters": FILTERS,
    }  # fmt: skip
    return Device(**{**facts, **changes})
