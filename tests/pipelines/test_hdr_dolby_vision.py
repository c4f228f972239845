"""Dolby Vision: what a container declares decides whether the base layer can be shown without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import UnsupportedSpec
from pipelines.facts.dolby_vision import declared, record
from pipelines.source import DolbyVision
from tests.jobs import SMALL, transcoded, warning_counts
from tests.media import make_video
from tests.pictures import seen

PARENTS = (b"moov", b"trak", b"mdia", b"minf", b"stbl")


def configuration(profile: int, compatible: int) -> bytes:
    """A record of 24 bytes: version 1.0, level 6, with RPUs and a base layer."""
    flags = profile << 9 | 6 << 3 | 0b101
    return bytes((1, 0)) + flags.to_bytes(2) + bytes((compatible << 4,)) + bytes(19)


def with_record(path: Path, name: bytes, body: bytes) -> Path:
    """The first picture's sample entry of an MP4 whose index is at its end gets one more box."""
    data = bytearray(path.read_bytes())
    index = data.find(b"moov")
    assert index > data.find(b"mdat")
    entry = max(data.find(b"hvc1", index), data.find(b"hev1", index)) - 4
    box = (8 + len(body)).to_bytes(4) + name + body
    end = entry + int.from_bytes(data[entry : entry + 4])
    grow = [entry, *(data.rfind(parent, 0, entry) - 4 for parent in (*PARENTS, b"stsd"))]
    for at in grow:
        data[at : at + 4] = (int.from_bytes(data[at : at + 4]) + len(box)).to_bytes(4)
    data[end:end] = box
    made = path.with_name(f"dv-{path.name}")
    made.write_bytes(data)
    return made


def dolby(folder: Path, profile: int, compatible: int, *, name: bytes = b"dvvC") -> Path:
    clip = make_video(folder / "clip.mp4", size=(96, 64), seconds=1, codec="hevc", audio=())
    return with_record(clip, name, configuration(profile, compatible))


@pytest.mark.parametrize("name", [b"dvcC", b"dvvC"])
@pytest.mark.parametrize(("profile", "compatible"), [(5, 0), (8, 1), (8, 4), (7, 6)])
def test_the_probe_tells_profile_and_base_layer(tmp_path: Path, name: bytes, profile: int, compatible: int) -> None:
    found = seen(dolby(tmp_path, profile, compatible, name=name))
    assert found.dolby_vision == DolbyVision(profile=profile, compatible=compatible)


def test_profile_8_is_encoded_from_its_base_layer_with_a_warning(tmp_path: Path) -> None:
    output, result = transcoded(dolby(tmp_path, 8, 1), tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert warning_counts(result)["dolby_vision_dropped"] == 1
    assert seen(output).dolby_vision is None


def test_profile_5_is_refused_unless_it_is_copied(tmp_path: Path) -> None:
    clip = dolby(tmp_path, 5, 0)
    with pytest.raises(UnsupportedSpec, match="profile 5 has no base layer") as caught:
        transcoded(clip, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert (caught.value.code, caught.value.facts["dolby_vision_profile"]) == ("unsupported", 5)
    _, result = transcoded(clip, tmp_path / "out", {"type": "copy", "format": "mp4"})
    assert result.outputs[0].renditions[0].encoder is None


def test_plain_hevc_is_not_dolby_vision(tmp_path: Path) -> None:
    clip = make_video(tmp_path / "clip.mp4", size=(96, 64), seconds=1, codec="hevc", audio=())
    assert seen(clip).dolby_vision is None


def test_matroska_declares_it_as_a_block_addition(tmp_path: Path) -> None:
    path = tmp_path / "head.mkv"
    path.write_bytes(b"\x1a\x45\xdf\xa3" + bytes(40) + b"\x41\xe7\x84dvcC\x41\xed\x98" + configuration(5, 0))
    with path.open("rb") as file:
        assert declared(file.fileno(), {"matroska"}) == {-1: DolbyVision(profile=5, compatible=0)}


@pytest.mark.parametrize("data", [b"", b"\0" * 24, b"\x01", b"\xff" * 4])
def test_records_that_are_none_are_ignored(data: bytes) -> None:
    assert record(data) is None


@pytest.mark.parametrize("size", [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x01"])
def test_hostile_sizes_end_the_search(tmp_path: Path, size: bytes) -> None:
    clip = dolby(tmp_path, 5, 0)
    data = bytearray(clip.read_bytes())
    at = data.rfind(b"stsd") - 4
    data[at : at + 4] = size
    clip.write_bytes(data)
    with clip.open("rb") as file:
        assert declared(file.fileno(), {"mov"}) == {}
