"""Values as people type them: times, bitrates, file names."""

from __future__ import annotations

import re

SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".ts", ".m4a", ".mp3", ".opus", ".flac")
"""File name extensions that pick an output format."""
FOLDER_SUFFIXES = (".m3u8", ".mpd", ".vtt")
"""Those of what is made of several files: they come in a folder."""
OTHER_SUFFIXES = (*FOLDER_SUFFIXES, ".jpg", ".jpeg", ".webp", ".gif")
"""Those of ladders and pictures."""

_CLOCK = re.compile(r"(?:(?:(\d+):)?([0-5]?\d):)?(\d+(?:\.\d+)?)")
_BITRATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)(?:bit/s|bps)?")
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_time(text: str) -> float:
    """Seconds from 90, 90.5, 1:30 or 1:02:03.5."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None or (match[2] is not None and float(match[3]) >= 60):
        raise ValueError(f"{text!r} is no time: use seconds or [h:]mm:ss, such as 90, 1:30 or 1:02:03.5")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def parse_bitrate(text: str) -> int:
    """Bit/s from 4M, 128k or 2500000."""
    match = _BITRATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no bitrate: use bit/s, such as 4M, 128k or 2500000")
    return round(float(match[1]) * _FACTORS[match[2].lower()])


def format_seconds(seconds: float | None) -> str:
    """h:mm:ss.s for people; a dash for what is unknown."""
    if seconds is None:
        return "–"
    tenths = round(seconds * 10)
    minutes, tenths = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    clock = f"{minutes:02}:{tenths // 10:02}" if hours else f"{minutes}:{tenths // 10:02}"
    return (f"{hours}:" if hours else "") + clock + (f".{tenths % 10}" if tenths % 10 else "")


def format_bytes(count: int | None) -> str:
    """Decimal units, as file managers and disks have them."""
    if count is None:
        return "–"
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def format_bitrate(bit_rate: int | None) -> str:
    if bit_rate is None:
        return "–"
    return f"{bit_rate / 1_000_000:.3g} Mbit/s" if bit_rate >= 1_000_000 else f"{bit_rate / 1000:.0f} kbit/s"
