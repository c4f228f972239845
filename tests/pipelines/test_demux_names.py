"""Names, metadata and durations as people have them: odd, in any encoding, or missing."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.result import Progress
from pipelines.source import SourceInfo
from pipelines.spec import FileJob
from tests.jobs import SMALL, rest_slow, run_job, transcoded
from tests.measure import decode_audio, decode_video
from tests.media import Tone, make_audio, make_video

SIZE = (96, 64)
MP4: dict[str, Any] = {"type": "mp4", "video": SMALL}
NAMES = [
    b"http:clip.mp4", b"concat:a|b.mp4", b"%03d.mp4", b"frame%d.png.mp4", b"-i.mp4", b"--help", b" two  words .mp4",
    b"line\nbreak.mp4", b"latin\xe9.mp4", b"\xff\xfe\x80.mp4", "größe 映画 🎬.mp4".encode(), b"'quote\" $(id) `id`.mp4",
    b"pipe:0", b"no extension", b"wrong.mp3", b"file:x.mkv", b"[a]{b}*?.mp4", b"a" * 250 + b".mp4",
]  # fmt: skip


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("names") / "clip.mp4", size=SIZE, seconds=1)


@pytest.mark.parametrize("name", rest_slow(NAMES, 11), ids=[ascii(name)[:20] for name in NAMES])
def test_any_file_name_is_a_file_name(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(clip.read_bytes())
    monkeypatch.chdir(tmp_path)
    for number, given in enumerate((path, Path(os.fsdecode(name)))):
        written, result = transcoded(given, tmp_path / f"{number}", MP4)
        assert len(decode_video(written).frames) == 25
        assert result.model_dump_json()


@pytest.mark.parametrize("folder", [b"a:b", b"100%d", b"-f", b"out\xff", b"line\nbreak"], ids=ascii)
def test_any_folder_name_takes_outputs(clip: Path, tmp_path: Path, folder: bytes) -> None:
    written, _ = transcoded(clip, tmp_path / os.fsdecode(folder), MP4)
    assert len(decode_video(written).frames) == 25


def with_title(path: Path, title: bytes) -> None:
    """Overwrites the placeholder with bytes of any encoding."""
    placeholder = b"@" * 24
    data = path.read_bytes()
    assert placeholder in data
    path.write_bytes(data.replace(placeholder, title.ljust(24, b" ")[:24]))


TITLES = {
    "Latin-1": b"Caf\xe9 \xe0 cr\xe8me", "invalid": b"\xff\xfe\x80\x81", "CR LF": b"two\r\nlines", "ESC": b"\x1b[1mred",
    "UTF-8": "Größe 映画".encode(), "surrogate": b"\xed\xa0\x80 half", "overlong": b"\xc0\xaf", "BEL": b"a\x07b\x7f",
    "NUL": b"cut\0off",
}  # fmt: skip


@pytest.mark.parametrize("form", rest_slow(["mp4", "mp3", "mkv", "flac"], 1))
@pytest.mark.parametrize("title", TITLES.values(), ids=TITLES.keys())
def test_metadata_of_any_encoding_stays_readable(tmp_path: Path, form: str, title: bytes) -> None:
    path = tmp_path / f"in.{form}"
    tags = {"title": "@" * 24, "artist": "someone"}
    if form in ("mp3", "flac"):
        options = {"id3v2_version": "4", "write_id3v1": "0"} if form == "mp3" else None
        make_audio(path, metadata=tags, seconds=1, container_options=options)
    else:
        make_video(path, size=SIZE, seconds=1, metadata=tags)
    with_title(path, title)
    source = probe(LocalFile(path, "in"), Limits())
    assert SourceInfo.model_validate_json(source.model_dump_json()) == source
    job = FileJob.model_validate({"input": {"path": "in"}, "outputs": [{"type": "mkv", "video": SMALL}]})
    assert plan(job, source, software_device(1)).model_dump_json()
    outputs: list[dict[str, Any]] = [{"type": "mkv", "video": SMALL}, {"type": "copy", "format": "mp4"}]
    for number, output in enumerate(outputs):
        written, result = transcoded(path, tmp_path / f"{number}", output)
        assert result.model_dump_json()
        with av.open(str(written)) as container:  # strict: what is written is UTF-8
            tags_written = {key.lower(): value for key, value in container.metadata.items()}
        assert tags_written["artist"] == "someone"
        kept = tags_written.get("title", "")
        assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in kept)
        if title == TITLES["UTF-8"]:
            assert kept.strip() == "Größe 映画"


def unknown_lengths(folder: Path) -> dict[str, Path]:
    clip: dict[str, Any] = {"size": SIZE, "seconds": 2}
    return {
        "WebM of a recorder": make_video(
            folder / "a.webm", codec="vp8", audio=(Tone("opus"),), container_options={"live": "1"}, **clip
        ),
        "live Matroska": make_video(folder / "b.mkv", container_options={"live": "1"}, **clip),
        "raw H.264": make_video(folder / "c.h264", audio=(), **clip),
        "raw HEVC": make_video(folder / "d.hevc", codec="hevc", audio=(), **clip),
        "fragmented MP4 without sizes": make_video(
            folder / "e.mp4", container_options={"movflags": "frag_keyframe+empty_moov+default_base_moof"}, **clip
        ),
        "FLV of a stream": make_video(folder / "f.flv", container_options={"flvflags": "no_duration_filesize"}, **clip),
    }


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return unknown_lengths(tmp_path_factory.mktemp("endless"))


@pytest.mark.parametrize("kind", ["WebM of a recorder", "live Matroska", "raw H.264", "raw HEVC"])
def test_without_a_duration_progress_is_unknown_and_the_output_right(
    endless: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    assert probe(LocalFile(endless[kind], "in"), Limits()).duration_seconds is None
    seen: list[Progress] = []
    result = run_job(endless[kind], tmp_path, MP4, on_progress=seen.append)
    assert seen
    assert all(progress.fraction is None and progress.eta_seconds is None for progress in seen)
    assert seen[-1].out_time == pytest.approx(2, abs=0.05)
    assert_two_seconds(tmp_path / result.outputs[0].path)


@pytest.mark.parametrize("kind", ["fragmented MP4 without sizes", "FLV of a stream"])
def test_what_is_written_as_it_comes_is_read_to_its_end(endless: dict[str, Path], tmp_path: Path, kind: str) -> None:
    written, result = transcoded(endless[kind], tmp_path, MP4)
    before, after = decode_video(endless[kind]).times, decode_video(written).times
    assert len(after) == 50
    assert all(abs((b - before[0]) - (a - after[0])) < Fraction(1, 1000) for a, b in zip(after, before, strict=True))
    assert not result.warnings


def assert_two_seconds(path: Path) -> None:
    times = decode_video(path).times
    assert len(times) == 50
    assert all(abs(later - earlier - Fraction(1, 25)) <= Fraction(1, 1000) for earlier, later in pairwise(times))
    with av.open(str(path)) as container:
        if container.streams.audio:
            assert abs(decode_audio(path).seconds - 2) < 0.07


def test_an_index_at_the_end_is_found(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=SIZE)
    data = path.read_bytes()
    assert data.index(b"mdat") < data.index(b"moov")
    written, _ = transcoded(path, tmp_path / "out", MP4)
    assert_two_seconds(written)
