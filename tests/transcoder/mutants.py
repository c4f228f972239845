"""Small media files of many formats, and damage done to them: the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

from tests.media import Tone, make_audio, make_picture, make_video

SHORT = Fraction(2, 5)
SIZE = (64, 48)
HEAD_BYTES = 600
"""Headers are read by the most intricate code, so half of the damage goes there."""
EXTREMES = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x80\0\0\0", b"\0\0\0\x80")


def _video(name: str, codec: str = "h264", sound: str = "aac") -> Callable[[Path], Path]:
    return lambda folder: make_video(folder / name, size=SIZE, codec=codec, audio=(Tone(sound),), seconds=SHORT)


def _audio(name: str) -> Callable[[Path], Path]:
    return lambda folder: make_audio(folder / name, seconds=SHORT)


MAKE: dict[str, Callable[[Path], Path]] = {
    "mp4": _video("a.mp4"),
    "mkv": _video("a.mkv", "hevc", "flac"),
    "ts": _video("a.ts", "mpeg2video", "mp2"),
    "avi": _video("a.avi", "mpeg4", "mp3"),
    "webm": _video("a.webm", "vp9", "libopus"),
    "flac": _audio("a.flac"),
    "mp3": _audio("a.mp3"),
    "ogg": _audio("a.ogg"),
    "wav": _audio("a.wav"),
    "gif": lambda folder: make_video(
        folder / "a.gif", size=SIZE, codec="gif", pixel_format="rgb8", audio=(), seconds=SHORT
    ),
    "png": lambda folder: make_picture(folder / "a.png", size=SIZE),
}


def _flip(data: bytearray, at: int, random: random.Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def _overwrite(data: bytearray, at: int, random: random.Random) -> None:
    count = random.choice((1, 2, 16, 200))
    data[at : at + count] = random.randbytes(count)


def _extreme(data: bytearray, at: int, random: random.Random) -> None:
    data[at : at + 4] = random.choice(EXTREMES)


def _remove(data: bytearray, at: int, random: random.Random) -> None:
    del data[at : at + random.choice((1, 4, 100, 2000))]


def _repeat(data: bytearray, at: int, random: random.Random) -> None:
    data[at:at] = data[at : at + random.choice((1, 8, 500))] * random.choice((1, 3, 50))


def _cut(data: bytearray, at: int, random: random.Random) -> None:
    del data[max(16, at) :]


DAMAGE = (_flip, _flip, _overwrite, _extreme, _extreme, _remove, _repeat, _cut)


def mutants(original: bytes, count: int, seed: str) -> Iterator[bytes]:
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(original)
        for _ in range(chance.choice((1, 1, 2, 5, 20))):
            bound = HEAD_BYTES if chance.random() < 0.5 else len(data)
            chance.choice(DAMAGE)(data, chance.randrange(max(1, min(bound, len(data)))), chance)
            if not data:
                data = bytearray(original[:16])
        yield bytes(data)
