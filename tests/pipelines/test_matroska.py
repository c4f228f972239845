"""Pixel shapes in Matroska headers: what was said before is still there, and at the place where the header says."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import OutputFailed
from pipelines.matroska.ebml import CRC, Element, element, elements, number, parent, void
from pipelines.matroska.shapes import SEEK_HEAD, SEEK_ID, SEEK_POSITION, SEGMENT, write_pixel_shapes
from tests.jobs import transcoded
from tests.measure import decode_video
from tests.media import Mark, Subtitles, Tone, make_video
from tests.pictures import seen

SHAPES = [Fraction(16, 11), Fraction(8, 9), Fraction(4, 3), Fraction(1, 3), Fraction(2143, 1999)]


def children(data: bytes, of: Element) -> list[Element]:
    return list(elements(data, of.body, of.end))


def check_header(path: Path) -> None:
    """Each entry of its list of parts leads to one, and each checksum is right."""
    data = path.read_bytes()
    segment = next(each for each in elements(data) if each.kind == SEGMENT)
    parts = children(data, segment)
    at = {each.begin - segment.body: each.kind for each in parts}
    for part in parts:
        inner = children(data, part) if part.kind != b"\xec" else []
        if inner and inner[0].kind == CRC:
            assert data[inner[0].body : inner[0].end] == crc32(data[inner[0].end : part.end]).to_bytes(4, "little")
    for entry in children(data, next(each for each in parts if each.kind == SEEK_HEAD))[1:]:
        said = {each.kind: data[each.body : each.end] for each in children(data, entry)}
        assert at[int.from_bytes(said[SEEK_POSITION])] == said[SEEK_ID]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "codec"), [("mkv", "vp9"), ("webm", "vp9"), ("mkv", "av1"), ("mkv", "h264")])
def test_the_header_says_the_shape_of_pixels(tmp_path: Path, kind: str, codec: str, shape: Fraction) -> None:
    source = make_video(tmp_path / "in.mp4", size=(160, 120), seconds=0.2, sar=shape, audio=())
    path, _ = transcoded(source, tmp_path / "out", {"type": kind, "video": {"codec": codec, "speed": "ultrafast"}})
    check_header(path)
    assert (seen(path).width, seen(path).height) == (160, 120)
    # WebM has whole pixels only
    assert float(seen(path).sample_aspect_ratio) == pytest.approx(float(shape), rel=0.006 if kind == "webm" else 1e-6)
    assert len(decode_video(path).frames) == 5


COPIES = [(origin, kind) for origin in ("mp4", "mkv", "webm") for kind in ("mp4", "mkv", "webm")]


@pytest.mark.parametrize(("origin", "kind"), COPIES)
def test_a_copy_keeps_a_shape_that_only_the_container_says(tmp_path: Path, origin: str, kind: str) -> None:
    shaped = make_video(tmp_path / "in.mp4", size=(160, 120), seconds=0.2, codec="vp9", sar=Fraction(4, 3), audio=())
    source, _ = transcoded(shaped, tmp_path / "source", {"type": "copy", "format": origin})
    path, _ = transcoded(source, tmp_path / "out", {"type": "copy", "format": kind})
    exact = "webm" not in (origin, kind)
    assert float(seen(path).sample_aspect_ratio) == pytest.approx(4 / 3, rel=1e-6 if exact else 0.004)


def test_a_full_header_stays_whole(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "audio": (Tone(language="eng", title="One"), Tone(language="fra", title="Two")),
        "subtitles": (Subtitles(cues=((0.1, 0.4, "Hello"),), language="ger"),),
        "chapters": (Mark(0, 0.2, "A"), Mark(0.2, 0.4, "B")),
        "attachments": (("font.ttf", "font/ttf", bytes(range(256)) * 20),),
        "metadata": {"title": "A film"},
    }
    source = make_video(tmp_path / "in.mkv", size=(160, 120), seconds=0.4, sar=Fraction(4, 3), rotation=90, **options)
    path, _ = transcoded(source, tmp_path / "out", {"type": "mkv", "video": {"rotation": "keep", "codec": "vp9"}})
    check_header(path)
    found = seen(path)
    assert (found.sample_aspect_ratio, found.rotation) == (Fraction(4, 3), 90)


def test_a_header_without_room_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.mkv"
    path.write_bytes(parent(SEGMENT, [parent(SEEK_HEAD, []), number(b"\xae", 1)]))
    before = path.read_bytes()
    with pytest.raises(OutputFailed):
        write_pixel_shapes(path, {1: Fraction(4, 3)}, webm=False)
    assert path.read_bytes() == before


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_elements_are_read_as_they_were_put_together(bodies: list[bytes]) -> None:
    data = b"".join(element(b"\x4d\xbb", body) for body in bodies)
    assert [data[each.body : each.end] for each in elements(data)] == bodies


@given(st.integers(2, 40_000))
def test_room_has_any_length(length: int) -> None:
    data = void(length)
    assert len(data) == length
    assert [each.end for each in elements(data)] == [length]


@pytest.mark.parametrize("data", [b"\x00", b"\xae", b"\x4d", b"\xae\x00", b"\xae\x40"])
def test_half_an_element_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="whole"):
        list(elements(data))
