"""What the lines of HLS playlists are made of: attribute lists, quoted text, URIs, numbers. Pure."""

from __future__ import annotations

from fractions import Fraction
from urllib.parse import quote

Attributes = list[tuple[str, str | None]]


def attributes(pairs: Attributes) -> str:
    """An attribute list; what is None is left out."""
    return ",".join(f"{name}={value}" for name, value in pairs if value is not None)


def quoted(text: str | None) -> str | None:
    """A quoted-string, which has no way to say a quote or a line's end: those are replaced."""
    return None if text is None else '"' + one_line(text).replace('"', "'") + '"'


def one_line(text: str) -> str:
    return " ".join(text.split()) if any(ord(letter) < 32 or letter == "\x7f" for letter in text) else text


def uri(path: str) -> str:
    """A relative path, or a whole URI, with what URIs don't take percent-encoded."""
    return quote(path, safe="/:?#[]@!$&'()*+,;=%~-._")


def decimal(number: Fraction, places: int) -> str:
    """A decimal fraction without needless zeros: at least one digit behind the point."""
    text = f"{round(number * 10**places) / 10**places:.{places}f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def yes_or_no(value: bool) -> str:
    return "YES" if value else "NO"
