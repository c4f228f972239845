"""Several tracks: order, languages, titles, what they are for, and exactly one default per type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import pytest
from av.stream import Disposition

from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from pipelines.source import AudioInfo, SourceInfo
from tests.jobs import SMALL, transcoded
from tests.measure import decode_audio, tones
from tests.media import Subtitles, Tone, make_video

CODECS = {"mp4": "aac", "mkv": "aac", "mov": "aac", "ts": "aac", "webm": "opus"}
VIDEO = {"webm": {**SMALL, "codec": "vp9"}}
TITLED = ("mkv", "webm", "mp4", "mov")
ROLES_IN: dict[str, set[str]] = {
    "mkv": {"comment", "original", "hearing_impaired", "visual_impaired", "descriptions"},
    "webm": set(),
    "mp4": {"comment", "dub", "hearing_impaired", "visual_impaired", "descriptions", "captions"},
}
"""What FFmpeg's muxers write and its demuxers read again."""


def facts(path: Path) -> SourceInfo:
    return probe(LocalFile(path, path.name), Limits())


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tracks, the second of them the default."""
    return make_video(
        tmp_path_factory.mktemp("media") / "three.mkv",
        size=(64, 48),
        seconds=1,
        audio=(
            Tone(frequencies=(300.0, 300.0), language="ger", title="Deutsch"),
            Tone(
                frequencies=(500.0, 500.0), language="eng", title="English, größer", default=True, roles=("original",)
            ),
            Tone(frequencies=(700.0, 700.0), language="fre", title="Commentaire", roles=("comment",)),
        ),
        subtitles=(
            Subtitles(language="ger", title="Erzwungen", forced=True),
            Subtitles(language="eng", title="SDH", default=True, roles=("hearing_impaired",)),
        ),
    )


def labels_of(tracks: tuple[AudioInfo, ...]) -> list[tuple[Any, ...]]:
    return [(track.language, track.title, track.default) for track in tracks]


@pytest.mark.parametrize(
    ("container", "copied"),
    # WebM takes neither H.264 nor AAC as they are
    [(container, copied) for container in CODECS for copied in (False, True) if (container, copied) != ("webm", True)],
)
def test_tracks_keep_order_language_title_and_one_default(
    tmp_path: Path, three: Path, container: str, copied: bool
) -> None:
    output: dict[str, Any] = {"type": "copy", "format": container} if copied else {
        "type": container, "video": VIDEO.get(container, SMALL), "audio": {"codec": CODECS[container]},
    }  # fmt: skip
    path, _ = transcoded(three, tmp_path, output)
    heard = [round(tones(decode_audio(path, track))[0], -1) for track in range(3)]
    assert heard == [300, 500, 700]
    written = facts(path)
    assert [track.language for track in written.audio] == ["ger", "eng", "fra" if container == "mov" else "fre"]
    if container in TITLED:
        assert [track.title for track in written.audio] == ["Deutsch", "English, größer", "Commentaire"]
        assert [track.default for track in written.audio] == [False, True, False]
        assert [track.default for track in written.video] == [True]


@pytest.mark.parametrize("container", ROLES_IN)
def test_roles_are_kept_where_the_container_has_them(tmp_path: Path, three: Path, container: str) -> None:
    output = {"type": container, "video": VIDEO.get(container, SMALL), "audio": {"codec": CODECS[container]}}
    path, _ = transcoded(three, tmp_path, output)
    written, original = facts(path), facts(three)
    assert [track.roles for track in original.audio] == [(), ("original",), ("comment",)]
    for before, after in zip(original.audio, written.audio, strict=True):
        assert set(after.roles) == set(before.roles) & ROLES_IN[container]
    # MP4 has one word for captions and subtitles for the hard of hearing
    assert set(written.subtitles[1].roles) - {"captions"} == {"hearing_impaired"} & ROLES_IN[container]


def test_dubs_stay_dubs_from_mp4_to_mp4(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", size=(64, 48), seconds=0.5, audio=(Tone(default=True), Tone(roles=("dub",))))
    output, _ = transcoded(path, tmp_path / "out", {"type": "mp4", "video": SMALL})
    assert [track.roles for track in facts(output).audio] == [(), ("dub",)]


@pytest.mark.parametrize("container", ["mkv", "mp4", "webm"])
def test_forced_and_default_subtitles_stay_so(tmp_path: Path, three: Path, container: str) -> None:
    output = {"type": container, "video": VIDEO.get(container, SMALL), "audio": {"codec": CODECS[container]}}
    path, _ = transcoded(three, tmp_path, output)
    written = facts(path).subtitles
    assert [track.language for track in written] == ["ger", "eng"]
    assert [track.title for track in written] == ["Erzwungen", "SDH"]
    assert [track.default for track in written] == [False, True]
    assert [track.forced for track in written] == [True, False]


@pytest.mark.parametrize("container", ["mkv", "webm"])
def test_subtitles_that_nobody_marked_stay_off(tmp_path: Path, container: str) -> None:
    path = make_video(tmp_path / "in.mkv", size=(64, 48), seconds=1, subtitles=(Subtitles(),))
    output, _ = transcoded(path, tmp_path / "out", {"type": container, "video": VIDEO.get(container, SMALL)})
    assert [track.default for track in facts(output).subtitles] == [False]


@pytest.mark.parametrize("marked", [(), (1, 2)])
def test_none_or_many_defaults_become_one(tmp_path: Path, marked: tuple[int, ...]) -> None:
    path = make_video(
        tmp_path / "in.mkv", size=(64, 48), seconds=0.5,
        audio=tuple(Tone(layout="mono", default=number in marked) for number in range(3)),
    )  # fmt: skip
    for container in ("mp4", "mkv"):
        output, _ = transcoded(path, tmp_path / container, {"type": container, "video": SMALL})
        first = marked[0] if marked else 0
        assert [track.default for track in facts(output).audio] == [number == first for number in range(3)]


def test_chosen_tracks_have_a_default_of_their_own(tmp_path: Path, three: Path) -> None:
    spec = {"type": "mkv", "video": SMALL, "audio": {"languages": ["ger", "fre"]}}
    path, _ = transcoded(three, tmp_path, spec)
    assert labels_of(facts(path).audio) == [("ger", "Deutsch", True), ("fre", "Commentaire", False)]


def test_an_audio_file_takes_the_default_track(tmp_path: Path, three: Path) -> None:
    path, _ = transcoded(three, tmp_path, {"type": "audio", "format": "m4a"})
    with av.open(str(path)) as container:
        (stream,) = container.streams
        assert stream.metadata["language"] == "eng"
        assert stream.disposition & Disposition.default
    assert round(tones(decode_audio(path))[0], -1) == 500
