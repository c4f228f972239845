"""Chapters and tags: what tells of the work goes along, what told of the old file does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.limits import Limits
from pipelines.metadata import KEPT_TAGS, chapter_comments, kept_tags
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from pipelines.source import Chapter, SourceInfo
from tests.jobs import SMALL, transcoded
from tests.media import Mark, make_audio, make_video

MARKS = (Mark(0, 0.7, "Anfang"), Mark(0.7, 1.5, "Mitte & größer"), Mark(1.5, 2, "終わり"))
VIDEO = {"webm": {**SMALL, "codec": "vp9"}}
TAGS = {
    "title": "Über alles", "artist": "An Artist", "album": "Album", "date": "2021",
    "comment": "A comment; with = signs",
    "genre": "Drama", "track": "3/9", "copyright": "© 2021 Somebody",
}  # fmt: skip
WRITTEN: dict[str, set[str]] = {
    "mp4": set(TAGS), "mkv": set(TAGS), "m4a": set(TAGS), "mp3": set(TAGS), "flac": set(TAGS), "opus": set(TAGS),
    "webm": set(TAGS), "mov": {"title", "artist", "album", "date", "comment", "genre", "copyright"},
}  # fmt: skip


def facts(path: Path) -> SourceInfo:
    return probe(LocalFile(path, path.name), Limits())


def output_of(form: str) -> dict[str, Any]:
    if form in ("m4a", "mp3", "flac", "opus"):
        return {"type": "audio", "format": form}
    return {"type": form, "video": VIDEO.get(form, SMALL)}


def chapters_of(path: Path) -> list[tuple[float, float, str | None]]:
    found = facts(path).chapters
    return [(round(c.start_seconds, 2), round(c.end_seconds, 2), c.title) for c in found]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(
        tmp_path_factory.mktemp("media") / "film.mp4", size=(64, 48), seconds=2, chapters=MARKS, metadata=TAGS
    )


@pytest.mark.parametrize("form", ["mp4", "mkv", "mov", "webm", "m4a", "mp3"])
def test_chapters_are_kept_with_their_titles(tmp_path: Path, film: Path, form: str) -> None:
    path, _ = transcoded(film, tmp_path, output_of(form))
    assert chapters_of(path) == [(mark.start, mark.end, mark.title) for mark in MARKS]


@pytest.mark.parametrize("form", ["opus", "flac"])
def test_comments_have_the_starts_of_chapters(tmp_path: Path, film: Path, form: str) -> None:
    path, _ = transcoded(film, tmp_path, output_of(form))
    found = [(start, title) for start, _, title in chapters_of(path)]
    assert found == [(mark.start, mark.title) for mark in MARKS]


def test_chapter_comments_are_written_to_the_millisecond() -> None:
    assert chapter_comments([Chapter(start_seconds=3725.7004, end_seconds=4000)]) == {
        "CHAPTER000": "01:02:05.700", "CHAPTER000NAME": "1",
    }  # fmt: skip


@pytest.mark.parametrize("form", ["mp4", "mkv", "webm", "m4a"])
def test_chapters_are_cut_to_the_clip(tmp_path: Path, film: Path, form: str) -> None:
    path, _ = transcoded(film, tmp_path, output_of(form), clip={"start": 1.0, "end": 1.8})
    assert chapters_of(path) == [(0.0, 0.5, "Mitte & größer"), (0.5, 0.8, "終わり")]


@pytest.mark.parametrize(
    "form", ["mp4", "opus", *(pytest.param(f, marks=pytest.mark.slow) for f in WRITTEN if f not in ("mp4", "opus"))]
)
def test_tags_of_the_work_are_kept(tmp_path: Path, film: Path, form: str) -> None:
    path, _ = transcoded(film, tmp_path, output_of(form))
    found = kept_tags(facts(path).metadata)
    assert {name: found.get(name) for name in WRITTEN[form]} == {name: TAGS[name] for name in WRITTEN[form]}


@pytest.mark.parametrize("source", ["mp3", "flac", "opus", "ogg", "m4a", "mkv", "wav"])
def test_tags_of_every_kind_of_source_are_read(tmp_path: Path, source: str) -> None:
    codec = {"ogg": "vorbis", "mkv": "aac"}.get(source)
    path = make_audio(tmp_path / f"in.{source}", codec=codec, seconds=0.3, metadata={"title": "T", "artist": "A"})
    output, _ = transcoded(path, tmp_path / "out", {"type": "audio", "format": "m4a"})
    assert kept_tags(facts(output).metadata) == {"title": "T", "artist": "A"}


def test_tags_of_the_old_file_are_not(tmp_path: Path) -> None:
    told = {"title": "T", "major_brand": "qt  ", "compatible_brands": "isom", "encoder": "Old", "DURATION": "9",
            "handler_name": "H", "creation_time": "2020-01-02T03:04:05.000000Z", "location": "+12.3+45.6/",
            "com.apple.quicktime.model": "Phone"}  # fmt: skip
    path = make_video(tmp_path / "in.mkv", size=(64, 48), seconds=0.5, metadata=told)
    output, _ = transcoded(path, tmp_path / "out", {"type": "mkv", "video": SMALL})
    with av.open(str(output)) as container:
        tags = {key.lower(): value for key, value in container.metadata.items()}
    assert tags.pop("encoder").startswith("Lavf")
    assert tags == {"title": "T", "creation_time": "2020-01-02T03:04:05.000000Z"}
    again, _ = transcoded(output, tmp_path / "again", {"type": "mp4", "video": SMALL})
    assert facts(again).metadata["creation_time"] == "2020-01-02T03:04:05.000000Z"


def test_kept_tags_is_a_choice_by_name() -> None:
    assert kept_tags({"TITLE": "a", "Year": "1999", "creation_time": "yesterday", "x": "y"}) == {
        "title": "a", "date": "1999",
    }  # fmt: skip
    assert kept_tags({"AUTHOR": "b", "artist": "c"}) == {"artist": "b"}
    assert len(set(KEPT_TAGS)) == len(KEPT_TAGS)


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (b"Caf\xe9 del mar!", "Caf\ufffd del mar!"),
        (b"two\r\nlines ok!", "two lines ok!"),
        (b"a\x1b[31mred\x07!!!", "a [31mred !!!"),
        ("größer ü".encode() + b" !", "größer ü !"),
    ],
)
def test_titles_in_any_encoding_become_clean_text(tmp_path: Path, raw: bytes, kept: str) -> None:
    placeholder = "X" * len(raw)
    path = make_video(
        tmp_path / "in.mkv", size=(64, 48), seconds=1, chapters=(Mark(0, 1, placeholder),),
        metadata={"title": placeholder},
    )  # fmt: skip
    path.write_bytes(path.read_bytes().replace(placeholder.encode(), raw))
    output, _ = transcoded(path, tmp_path / "out", {"type": "mp4", "video": SMALL})
    written = facts(output)
    assert written.metadata["title"] == kept
    assert [chapter.title for chapter in written.chapters] == [kept]
