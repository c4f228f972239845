"""Text subtitles: the same text at the same time, in the container's own kind."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.captions.cues import Cue, Screen, for_webvtt, read_events
from tests.captions import captions
from tests.jobs import SMALL, run_job, transcoded, warning_counts
from tests.media import Subtitles, make_video

VIDEO = {"webm": {**SMALL, "codec": "vp9"}}
KIND = {"mp4": "mov_text", "mov": "mov_text", "mkv": "srt", "webm": "webvtt"}
CUES = ((0.2, 0.8, "First line"), (1.0, 1.601, "Zweite Zeile, größer"), (1.7, 1.9, "三\\Nfour"))
SOURCES = [("mkv", "subrip"), ("mkv", "ass"), ("mkv", "webvtt"), ("mp4", "mov_text"), ("webm", "webvtt")]


def clip(path: Path, *tracks: Subtitles, seconds: float = 2) -> Path:
    codec = "vp9" if path.suffix == ".webm" else "h264"
    return make_video(path, size=(64, 48), seconds=seconds, codec=codec, subtitles=tracks, audio=())


def output_of(container: str) -> dict[str, Any]:
    return {"type": container, "video": VIDEO.get(container, SMALL)}


def assert_shown(path: Path, expected: list[tuple[float, float, str]], track: int = 0) -> None:
    found = captions(path, track)
    assert [cue.text for cue in found] == [text for _, _, text in expected]
    assert [(cue.begin, cue.end) for cue in found] == [
        (pytest.approx(begin, abs=0.001), pytest.approx(end, abs=0.001)) for begin, end, _ in expected
    ]


@pytest.mark.parametrize(("source", "codec"), SOURCES)
@pytest.mark.parametrize(
    "container", ["mp4", "mkv", *(pytest.param(k, marks=pytest.mark.slow) for k in ("mov", "webm"))]
)
def test_text_and_times_survive_conversion(tmp_path: Path, source: str, codec: str, container: str) -> None:
    path = clip(tmp_path / f"in.{source}", Subtitles(CUES, codec))
    output, result = transcoded(path, tmp_path / "out", output_of(container))
    kept = {("mkv", "ass"): "ssa", ("mkv", "webvtt"): "webvtt"}.get((container, codec), KIND[container])
    with av.open(str(output)) as opened:
        assert opened.streams.subtitles[0].codec_context.name == kept
    if kept == "ssa":
        assert [cue.text.split(",", 8)[8] for cue in captions(output)] == [text for _, _, text in CUES]
    else:
        assert_shown(output, [(begin, end, text.replace("\\N", "\n")) for begin, end, text in CUES])
    assert not result.warnings


def test_a_transport_stream_goes_without_text_and_says_so(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(CUES))
    _, result = transcoded(path, tmp_path / "out", output_of("ts"))
    assert warning_counts(result) == {"subtitle_dropped": 1}


STYLED = (
    (0.1, 0.3, "{\\i1}slanted{\\i0} {\\pos(10,20)\\fad(100,100)\\c&H0000FF&}placed"),
    (0.4, 0.6, "{\\p1}m 0 0 l 100 0 100 100{\\p0}"),
    (0.7, 0.9, "{a comment}heard{\\k20}ka{\\k30}ra"),
    (1.0, 1.2, "hard\\hspace & <angles>"),
    (1.3, 1.5, "{\\an8}above"),
)


def test_styling_becomes_the_containers_own_or_nothing(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(STYLED, "ass"))
    mp4, _ = transcoded(path, tmp_path / "mp4", output_of("mp4"))
    assert [cue.text for cue in captions(mp4)] == [
        "slanted placed", "heardkara", "hard\u00a0space & <angles>", "above",
    ]  # fmt: skip
    webm, _ = transcoded(path, tmp_path / "webm", output_of("webm"))
    assert [cue.text for cue in captions(webm)] == [
        "<i>slanted</i> placed", "heardkara", "hard\u00a0space &amp; &lt;angles&gt;", "above",
    ]  # fmt: skip


def test_tags_of_subrip_become_webvtts_own(tmp_path: Path) -> None:
    cues = ((0.1, 0.5, "{\\i1}slanted{\\i0} and {\\b1}bold{\\b0}"), (0.6, 0.9, "3 < 5 & 7 > 2"))
    path = clip(tmp_path / "in.mkv", Subtitles(cues, "subrip"))
    output, _ = transcoded(path, tmp_path / "out", output_of("webm"))
    assert [cue.text for cue in captions(output)] == ["<i>slanted</i> and <b>bold</b>", "3 &lt; 5 &amp; 7 &gt; 2"]


OVERLAPPING = ((0.2, 1.0, "a"), (0.5, 1.5, "b"), (0.5, 0.8, "c"), (1.5, 1.8, "d"))


def test_cues_that_overlap_are_together_where_one_is_shown_at_a_time(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(OVERLAPPING))
    output, _ = transcoded(path, tmp_path / "out", output_of("mp4"))
    assert_shown(
        output,
        [(0.2, 0.5, "a"), (0.5, 0.8, "a\nb\nc"), (0.8, 1.0, "a\nb"), (1.0, 1.5, "b"), (1.5, 1.8, "d")],
    )


@pytest.mark.parametrize("container", ["mkv", "webm"])
def test_cues_that_overlap_stay_as_they_are_elsewhere(tmp_path: Path, container: str) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(OVERLAPPING))
    output, result = transcoded(path, tmp_path / "out", output_of(container))
    assert_shown(output, list(OVERLAPPING))
    assert not result.warnings


@pytest.mark.parametrize(
    "container", ["mp4", "mkv", *(pytest.param(k, marks=pytest.mark.slow) for k in ("mov", "webm"))]
)
@pytest.mark.parametrize("codec", ["subrip", "ass"])
def test_cues_are_cut_to_the_clip(tmp_path: Path, container: str, codec: str) -> None:
    cues = ((0.1, 0.3, "before"), (0.4, 0.9, "into it"), (1.0, 1.2, "inside"), (1.4, 1.9, "out of it"), (1.95, 2, "x"))
    path = clip(tmp_path / "in.mkv", Subtitles(cues, codec))
    output, _ = transcoded(path, tmp_path / "out", output_of(container), clip={"start": 0.6, "end": 1.6})
    found = [(cue.begin, cue.end, cue.text.split(",", 8)[-1]) for cue in captions(output)]
    assert found == [
        (0, pytest.approx(0.3, abs=0.001), "into it"),
        (pytest.approx(0.4, abs=0.001), pytest.approx(0.6, abs=0.001), "inside"),
        (pytest.approx(0.8, abs=0.001), pytest.approx(1.0, abs=0.001), "out of it"),
    ]


@pytest.mark.parametrize("source", ["mkv", "mp4"])
def test_a_cue_from_long_before_the_clip_is_still_there(tmp_path: Path, source: str) -> None:
    cues = ((0.5, 1.0, "gone"), (1.0, 8.5, "long"), (8.7, 9.0, "short"))
    codec = "mov_text" if source == "mp4" else "subrip"
    path = make_video(
        tmp_path / f"in.{source}", size=(64, 48), seconds=10, gop=25, audio=(), subtitles=(Subtitles(cues, codec),)
    )
    for container in ("mkv", "mp4"):
        output, _ = transcoded(path, tmp_path / container, output_of(container), clip={"start": 8.0})
        assert_shown(output, [(0, 0.5, "long"), (0.7, 1.0, "short")])


def test_subtitles_follow_copied_video_to_its_keyframe(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mkv", size=(64, 48), seconds=4, gop=25, subtitles=(Subtitles(((2.5, 3, "x"),)),))
    for container in ("mkv", "mp4"):
        output, _ = transcoded(path, tmp_path / container, {"type": "copy", "format": container}, clip={"start": 2.2})
        assert_shown(output, [(0.5, 1.0, "x")])


@pytest.mark.parametrize("container", ["mp4", "mkv", "webm"])
def test_empty_cues_are_nothing(tmp_path: Path, container: str) -> None:
    cues = ((0.1, 0.3, " "), (0.4, 0.6, "{\\i1}{\\i0}"), (0.7, 0.9, "text"), (1.0, 1.1, "\\N"))
    path = clip(tmp_path / "in.mkv", Subtitles(cues, "ass" if container != "mkv" else "subrip"))
    output, _ = transcoded(path, tmp_path / "out", output_of(container))
    assert "text" in [cue.text for cue in captions(output)]
    if container != "mkv":
        assert_shown(output, [(0.7, 0.9, "text")])


@pytest.mark.parametrize("container", ["mp4", "webm"])
def test_a_thousand_cues_are_all_there(tmp_path: Path, container: str) -> None:
    cues = tuple((n / 50, n / 50 + 0.018, f"cue {n}") for n in range(1000))
    path = make_video(
        tmp_path / "in.mkv", size=(16, 16), rate=5, seconds=20, audio=(), subtitles=(Subtitles(cues),)
    )  # fmt: skip
    output, _ = transcoded(path, tmp_path / "out", {"type": container, "video": VIDEO.get(container, SMALL)})
    assert [cue.text for cue in captions(output)] == [f"cue {n}" for n in range(1000)]


def test_outputs_that_convert_the_same_track_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(OVERLAPPING, "ass", language="ger"), Subtitles(CUES, "subrip"))
    names = ["mp4", "mov", "webm", "mkv"]
    together = run_job(path, tmp_path / "all", *({**output_of(name), "name": name} for name in names))
    for name, written in zip(names, together.outputs, strict=True):
        alone, _ = transcoded(path, tmp_path / name, output_of(name))
        for track in range(2):
            assert captions(tmp_path / "all" / written.path, track) == captions(alone, track)


@pytest.mark.parametrize("container", ["mp4", "mkv", "webm"])
def test_subtitles_that_outlast_the_picture_are_kept(tmp_path: Path, container: str) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(((0.5, 3.5, "long"),)), seconds=1)
    output, _ = transcoded(path, tmp_path / "out", output_of(container))
    assert_shown(output, [(0.5, 3.5, "long")])


def test_old_encodings_are_read_as_cp1252_and_counted(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", Subtitles(((0.2, 0.8, "gr__er one"), (1.0, 1.5, "plain"), (1.6, 1.8, "n__"))))
    data = path.read_bytes().replace(b"gr__er", b"gr\xf6\xdfer").replace(b"n__", b"n\xe9\x85")
    path.write_bytes(data)
    output, result = transcoded(path, tmp_path / "out", output_of("mp4"))
    assert [cue.text for cue in captions(output)] == ["größer one", "plain", "né…"]
    assert warning_counts(result) == {"subtitle_encoding": 2}


@pytest.mark.slow
def test_a_late_first_cue_holds_nothing_back(tmp_path: Path) -> None:
    """The file grows while the first cue is still far: the muxer waits 10 s of media for it at most."""
    frames = {"size": (320, 240), "rate": 10, "seconds": 40, "audio": (), "options": {"preset": "ultrafast"}}
    path = make_video(tmp_path / "in.mkv", subtitles=(Subtitles(((39.0, 39.5, "late"),)),), **frames)
    sizes: list[tuple[float, int]] = []
    written = tmp_path / "out" / "output.mkv"
    run_job(
        path, tmp_path / "out", {"type": "mkv", "video": {"speed": "ultrafast"}},
        on_progress=lambda progress: sizes.append((progress.out_time, written.stat().st_size)),
    )  # fmt: skip
    assert_shown(written, [(39.0, 39.5, "late")])
    with av.open(str(written)) as container:
        places = [packet.pos for packet in container.demux(video=0) if packet.pos is not None and packet.size]
        cue = next(packet.pos for packet in _packets(written) if packet.size)
    before = sum(place < cue for place in places)
    assert 280 <= before <= 395


def _packets(path: Path) -> list[Any]:
    with av.open(str(path)) as container:
        return list(container.demux(subtitles=0))


def test_zero_length_samples_of_mp4_do_not_stop_a_copy(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mp4", Subtitles(CUES, "mov_text"))
    data = bytearray(path.read_bytes())
    # the subtitle track's table of durations: the second sample gets none
    for at in range(len(data)):
        if data[at : at + 4] == b"stts":
            last = at
    assert struct.unpack(">I", data[last + 8 : last + 12])[0] > 1
    data[last + 24 : last + 28] = struct.pack(">I", 0)
    path.write_bytes(data)
    output, _ = transcoded(path, tmp_path / "out", {"type": "copy", "format": "mp4"})
    assert [cue.text for cue in captions(output)][-1] == "三\nfour"


# the rules themselves


def test_a_screen_never_shows_two_cues_and_loses_no_time() -> None:
    screen = Screen()
    shown = [*screen.add(Cue(0, 10, "a")), *screen.add(Cue(5, 7, "b")), *screen.add(Cue(20, 30, "c")), *screen.all()]
    assert [(cue.begin, cue.end, cue.text) for cue in shown] == [
        (0, 5, "a"), (5, 7, "a\\Nb"), (7, 10, "a"), (20, 30, "c"),
    ]  # fmt: skip


def test_settled_cues_leave_a_screen_before_the_next_one_comes() -> None:
    screen = Screen()
    assert list(screen.add(Cue(0, 10, "a"))) == []
    assert list(screen.settled(9)) == []
    assert list(screen.settled(10)) == [Cue(0, 10, "a")]
    assert list(screen.all()) == []


@pytest.mark.parametrize(
    ("text", "is_ass", "expected"),
    [
        ("a{comment}b", True, "ab"), ("a{comment}b", False, "a{comment}b"),
        ("{\\p2}m 1 2{\\p0}x", True, "{\\p2}{\\p0}x"),
        ("a\\hb", True, "a\u00a0b"), ("{\\pos(1,2)}a", True, "{\\pos(1,2)}a"), ("{\\i1} {\\i0}", True, ""),
    ],
)  # fmt: skip
def test_what_is_read_of_an_event(text: str, is_ass: bool, expected: str) -> None:
    assert read_events([f"0,0,Sign,,0,0,0,,{text}".encode()], is_ass=is_ass) == ("Sign", expected)


def test_several_events_at_once_are_lines_of_one() -> None:
    events = [b"0,0,Default,,0,0,0,,a", b"1,0,Default,,0,0,0,,  ", b"2,0,Default,,0,0,0,,b"]
    assert read_events(events, is_ass=True) == ("Default", "a\\Nb")


def test_webvtt_text_has_entities_outside_of_overrides() -> None:
    assert for_webvtt("{\\c&H0000FF&}a & b < c") == "{\\c&H0000FF&}a &amp; b &lt; c"
