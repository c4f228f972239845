"""Text of any encoding: as its mark says, as UTF-8 where it is that, as it was told, or as its bytes suggest."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from pipelines.packaging.languages import language_tag

MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    # before UTF-16's, which it begins with
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PYTHON: dict[str, str] = {"windows-874": "cp874", "shift-jis": "cp932", "euc-kr": "cp949", "gbk": "gb18030"}
"""Where files that are called so have more characters than the narrow standard."""
LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "cp1258", "iso8859-2", "iso8859-15")
"""Encodings of languages most of whose letters are ASCII."""
OTHERS = (
    "cp1251", "koi8-r", "koi8-u", "cp866", "iso8859-5", "cp1253", "iso8859-7", "cp1255", "iso8859-8", "cp1256",
    "iso8859-6", "cp874", "cp932", "euc_jis_2004", "gb18030", "big5hkscs", "cp949",
)  # fmt: skip
_LANGUAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("en fr de es pt it nl sv da nb nn no fi is ca gl eu ga af id ms", ("cp1252", "iso8859-15")),
    ("cs sk pl hu sl hr ro bs", ("cp1250", "iso8859-2")),
    ("et lt lv", ("cp1257",)),
    ("ru bg be", ("cp1251", "koi8-r", "cp866", "iso8859-5")),
    ("uk", ("cp1251", "koi8-u", "iso8859-5")),
    ("sr mk", ("cp1250", "cp1251")),
    ("tr", ("cp1254",)),
    ("vi", ("cp1258",)),
    ("el", ("cp1253", "iso8859-7")),
    ("he", ("cp1255", "iso8859-8")),
    ("ar fa ur", ("cp1256", "iso8859-6")),
    ("th", ("cp874",)),
    ("ja", ("cp932", "euc_jis_2004")),
    ("zh", ("gb18030", "big5hkscs")),
    ("ko", ("cp949",)),
)
BY_LANGUAGE = {tag: charsets for tags, charsets in _LANGUAGES for tag in tags.split()}
"""What old subtitles in a language are in."""
_NO_MATCH = "ascii"
_LETTERS = re.compile(rb"[A-Za-z]")
_TAGS = re.compile(rb"<[^<>\n]{0,200}>|\{[^{}\n]{0,2000}\}")
_EVENTS = re.compile(rb"^Dialogue:(?:[^,\n]*,){9}([^\n]*)", re.M)
_TIMES = re.compile(rb"^.*-->.*$", re.M)
_MOST_GUESSED_BYTES = 262_144
_RARELY_DAMAGED = 20
"""UTF-8 with so many good characters for each bad byte is UTF-8 with damage."""
_FEWEST_ZEROS = 0.05
"""Share of the bytes; the times alone have more."""
_ONE_SIDED = 10
_MOST_CONTROLS = 0.01
"""Share of the characters; text has next to none."""


class NotText(ValueError):
    """What was read is no text, or not in the encoding that it was said to be in."""


@dataclass(frozen=True)
class Text:
    """`guessed`: nobody said the encoding, neither the file nor its owner."""

    text: str
    charset: str
    guessed: bool


def decoded(data: bytes, charset: str | None, language: str | None = None) -> Text:
    """`language` helps where nothing else tells. Lines end in \\n, and there is no mark. NotText."""
    for mark, name in MARKS:
        if data.startswith(mark):
            return _checked(_strict(data[len(mark) :], name), name, guessed=False)
    if charset is not None:
        return _checked(_strict(data, charset), charset, guessed=False)
    if (wide := _wide(data)) is not None:
        return _checked(_strict(data, wide), wide, guessed=True)
    try:
        return _checked(data.decode("utf-8"), "utf-8", guessed=False)
    except UnicodeDecodeError:
        pass
    patched = data.decode("utf-8", "replace")
    bad = patched.count("\ufffd")
    if sum(letter > "\x7f" for letter in patched) - bad >= _RARELY_DAMAGED * bad:
        return _checked(patched, "utf-8", guessed=False)
    name = _guess(data, language)
    try:
        return _checked(data.decode(name), name, guessed=True)
    except UnicodeDecodeError:
        return _checked(data.decode(name, "replace"), name, guessed=True)


def _wide(data: bytes) -> str | None:
    """UTF-16 without a mark: digits and line ends have a zero byte, always on the same side."""
    first, second = data[::2].count(0), data[1::2].count(0)
    if max(first, second) < len(data) * _FEWEST_ZEROS or min(first, second) * _ONE_SIDED > max(first, second):
        return None
    return "utf-16-le" if second > first else "utf-16-be"


def _strict(data: bytes, charset: str) -> str:
    try:
        return data.decode(_PYTHON.get(charset, charset))
    except UnicodeDecodeError as error:
        raise NotText(f"is not {charset}: it has other bytes at {error.start}") from None


def _guess(data: bytes, language: str | None) -> str:
    """By what is said alone: times, tags and styles are ASCII in all languages."""
    import chardet  # here: its models take a moment to load, and most files are UTF-8

    said = _said(data)
    high, low = sum(byte > 0x7F for byte in said), len(_LETTERS.findall(said))
    primary = (language_tag(language) or "").partition("-")[0]
    for candidates in (BY_LANGUAGE.get(primary), LATIN if high < low else OTHERS):
        if candidates is None:
            continue
        found = chardet.detect(
            said,
            prefer_superset=True,
            compat_names=False,
            max_bytes=_MOST_GUESSED_BYTES,
            include_encodings=candidates,
            no_match_encoding=_NO_MATCH,
        )
        name = found["encoding"]
        if name is not None and name != _NO_MATCH:
            return name
    raise NotText("is no text")


def _said(data: bytes) -> bytes:
    """Without what is of the form: of ASS only the last field of its events, of others no times."""
    events = _EVENTS.findall(data)
    return _TAGS.sub(b"", b"\n".join(events) if events else _TIMES.sub(b"", data))


def _checked(text: str, charset: str, *, guessed: bool) -> Text:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    controls = sum(letter < " " and letter not in "\n\t\f" for letter in text)
    if controls > len(text) * _MOST_CONTROLS:
        raise NotText("is no text")
    return Text(text.replace("\0", ""), charset, guessed)
