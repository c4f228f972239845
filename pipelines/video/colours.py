"""FFmpeg's names and numbers for colour tags (ISO/IEC 23091-2; the numbers are the standard's)."""

from __future__ import annotations

PRIMARIES = {
    "bt709": 1, "bt470m": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7, "film": 8, "bt2020": 9, "smpte428": 10,
    "smpte431": 11, "smpte432": 12, "ebu3213": 22,
}  # fmt: skip
TRANSFERS = {
    "bt709": 1, "gamma22": 4, "gamma28": 5, "smpte170m": 6, "smpte240m": 7, "linear": 8, "log100": 9, "log316": 10,
    "iec61966-2-4": 11, "bt1361e": 12, "iec61966-2-1": 13, "bt2020-10": 14, "bt2020-12": 15, "smpte2084": 16,
    "smpte428": 17, "arib-std-b67": 18,
}  # fmt: skip
MATRICES = {
    "gbr": 0, "bt709": 1, "fcc": 4, "bt470bg": 5, "smpte170m": 6, "smpte240m": 7, "ycgco": 8, "bt2020nc": 9,
    "bt2020c": 10, "smpte2085": 11, "ictcp": 14,
}  # fmt: skip
RANGES = {"tv": 1, "pc": 2}

PRIMARIES_BY_NUMBER = {number: name for name, number in PRIMARIES.items()}
TRANSFERS_BY_NUMBER = {number: name for name, number in TRANSFERS.items()}
MATRICES_BY_NUMBER = {number: name for name, number in MATRICES.items()}
RANGES_BY_NUMBER = {number: name for name, number in RANGES.items()}


_RGB = (
    "rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "0bgr", "x2rgb", "x2bgr", "pal8", "xyz", "bayer",
)  # fmt: skip
_ALPHA = ("yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "pal8", "vuya", "ayuv")
_GRAY = ("gray", "mono", "ya8", "ya16")


def is_rgb(pixel_format: str | None) -> bool:
    return (pixel_format or "").startswith(_RGB)


def has_alpha(pixel_format: str | None) -> bool:
    return (pixel_format or "").startswith(_ALPHA)


def is_gray(pixel_format: str | None) -> bool:
    return (pixel_format or "").startswith(_GRAY)


def is_full_unsaid(pixel_format: str | None) -> bool:
    """Whether the format is full range where nothing is said: JPEG's formats, and grey (as PNG and JPEG have it)."""
    return (pixel_format or "").startswith(("yuvj", *_GRAY))


def guess_matrix(width: int, height: int) -> str:
    """The matrix players assume where nothing is said: BT.709 for HD, BT.601 below (625 lines: its PAL twin)."""
    if width >= 1280 or height > 576:
        return "bt709"
    return "bt470bg" if height in (576, 288) else "smpte170m"
