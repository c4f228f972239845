"""Subtitles from files beside the input: the same text at the same time as if they had been tracks of it."""

from __future__ import annotations

import re
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.captions.drawing import style_of
from pipelines.errors import BadSubtitles, FilterMissing, LimitExceeded, PipelineError, UnsupportedSpec
from pipelines.facts.survey import examine
from pipelines.filters import BurnIn
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.rendition import VideoRendition
from pipelines.result import Result
from pipelines.spec import FileJob
from pipelines.stitch.joining import Piece
from pipelines.stitch.tasks import CutRules, cut, encode_piece, stitch
from pipelines.transcode import transcode
from tests.captions import captions
from tests.jobs import DEVICE, SMALL, warning_counts
from tests.media import Subtitles, make_video

LINES = ((0.2, 0.8, "First line"), (1.0, 1.6, "Größer & <b>bold</b>"), (1.7, 1.9, "last"))
PLAIN = ["First line", "Größer & bold", "last"]


def stamp(seconds: float, comma: str = ",") -> str:
    return f"00:00:{int(seconds):02d}{comma}{round(seconds * 1000) % 1000:03d}"


def srt(lines: Any = LINES) -> str:
    return "".join(f"{n}\n{stamp(begin)} --> {stamp(end)}\n{text}\n\n" for n, (begin, end, text) in enumerate(lines, 1))


def vtt(lines: Any = LINES) -> str:
    return "WEBVTT\n\n" + "".join(
        f"{stamp(begin, '.')} --> {stamp(end, '.')}\n{text.replace('&', '&amp;')}\n\n" for begin, end, text in lines
    )


def ass(lines: Any = LINES) -> str:
    head = (
        "[Script Info]\nScriptType: v4.00+\nPlayResX: 640\nPlayResY: 480\n\n[V4+ Styles]\n"
        "Format: Name, Fontname, Fontsize, PrimaryColour, Alignment\nStyle: Sign,Arial,40,&H0000FFFF,8\n\n"
        "[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    )
    return head + "".join(
        f"Dialogue: 0,0:00:{begin:05.2f},0:00:{end:05.2f},Sign,,0,0,0,,"
        f"{text.replace('<b>', '{' + chr(92) + 'b1}').replace('</b>', '{' + chr(92) + 'b0}')}\n"
        for begin, end, text in lines
    )


FORMS = {"srt": srt, "vtt": vtt, "ass": ass}


def clip(path: Path, **options: Any) -> Path:
    return make_video(path, size=(64, 48), **{"seconds": 2, "audio": (), **options})


def job(
    path: Path, folder: Path, output: dict[str, Any], *texts: dict[str, Any], clip: dict[str, float] | None = None
) -> Result:
    """Transcodes with the files that `texts` name by their paths."""
    asked = {"input": {"path": "in", "clip": clip, "subtitles": list(texts)}, "outputs": [output]}
    spec = FileJob.model_validate(asked)
    beside = {each.key: Path(str(each.path)) for each in spec.input.subtitles}
    folder.mkdir()
    return transcode(spec, LocalFile(path, path.name, beside), folder, device=DEVICE, limits=Limits())


def made(path: Path, folder: Path, output: dict[str, Any], *texts: dict[str, Any], **more: Any) -> tuple[Path, Result]:
    result = job(path, folder, output, *texts, **more)
    return folder / result.outputs[0].path, result


def written(path: Path, text: str, charset: str = "utf-8") -> dict[str, Any]:
    path.write_bytes(text.encode(charset))
    return {"path": str(path)}


def shown(path: Path, track: int = 0) -> list[tuple[float, float, str]]:
    cues = captions(path, track)
    return [(round(c.begin, 2), round(c.end, 2), re.sub(r"^\d+,\d+,Sign,(.*?,){5}", "", c.text)) for c in cues]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_each_form_is_there_in_the_containers_own_kind(tmp_path: Path, form: str, container: str) -> None:
    text = {**written(tmp_path / "beside", FORMS[form]()), "language": "de", "title": "Deutsch", "forced": True}
    output, result = made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": container, "video": SMALL}, text)
    found = shown(output)
    assert [(begin, end) for begin, end, _ in found] == [(begin, end) for begin, end, _ in LINES]
    for (_, _, line), plain in zip(found, PLAIN, strict=True):
        bare = line.replace("<b>", "").replace("</b>", "").replace("{\\b1}", "").replace("{\\b0}", "")
        assert bare.replace("&amp;", "&") == plain
    with av.open(str(output)) as opened:
        track: Any = opened.streams.subtitles[0]
        kinds = {"mp4": "mov_text", "mkv": {"srt": "srt", "vtt": "webvtt", "ass": "ssa"}[form]}
        assert track.codec_context.name == kinds[container]
        assert track.metadata["language"] == {"mp4": "deu", "mkv": "de"}[container]
        assert track.metadata["title" if container == "mkv" else "handler_name"] == "Deutsch"
        assert track.disposition & av.stream.Disposition.forced or container == "mp4"
    assert not result.warnings


def test_styles_of_ass_go_along_into_matroska(tmp_path: Path) -> None:
    text = written(tmp_path / "beside", ass())
    output, _ = made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "mkv", "video": SMALL}, text)
    with av.open(str(output)) as opened:
        assert b"Style: Sign,Arial,40" in (opened.streams.subtitles[0].codec_context.extradata or b"")


RUSSIAN = ((0.2, 0.8, "Привет, как дела?"), (1.0, 1.6, "Всё хорошо, спасибо"), (1.7, 1.9, "До свидания"))
JAPANESE = ((0.2, 0.8, "こんにちは、世界"), (1.0, 1.6, "今日はいい天気ですね"), (1.7, 1.9, "ありがとうございます"))
FRENCH = ((0.2, 0.8, "Où êtes-vous passé ?"), (1.0, 1.6, "C’est très élégant"), (1.7, 1.9, "“Déjà” — dit-il"))
CHARSETS = [
    ("utf-8-sig", JAPANESE, None), ("utf-16", RUSSIAN, None), ("utf-32", FRENCH, None), ("cp1252", FRENCH, "cp1252"),
    ("cp932", JAPANESE, "cp932"), ("euc-jp", JAPANESE, "euc"), ("cp1251", RUSSIAN, "cp1251"),
    ("koi8-r", RUSSIAN, "koi8"), ("utf-16-le", RUSSIAN, "utf-16"), ("utf-16-be", FRENCH, "utf-16"),
]  # fmt: skip


@pytest.mark.parametrize(("charset", "lines", "guess"), CHARSETS)
def test_encodings_are_told_by_their_mark_or_their_bytes(
    tmp_path: Path, charset: str, lines: Any, guess: str | None
) -> None:
    text = written(tmp_path / "beside", srt(lines), charset)
    output, result = made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "subtitles", "format": "srt"}, text)
    assert [line for _, _, line in shown(output)] == [line for _, _, line in lines]
    if guess is None:
        assert not result.warnings
    else:
        assert warning_counts(result) == {"subtitle_charset": 1}
        assert guess in result.warnings[0].message


def test_an_encoding_that_is_given_is_not_guessed(tmp_path: Path) -> None:
    lines = ((0.2, 0.8, "é"),)
    text = {**written(tmp_path / "beside", srt(lines), "cp850"), "charset": "cp850"}
    output, result = made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "subtitles"}, text)
    assert shown(output) == [(0.2, 0.8, "é")]
    assert not result.warnings


def test_a_language_helps_where_bytes_say_too_little(tmp_path: Path) -> None:
    lines = ((0.2, 0.8, "Şimdi değil"),)
    text = {**written(tmp_path / "beside", srt(lines), "cp1254"), "language": "tur"}
    output, _ = made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "subtitles"}, text)
    assert shown(output) == [(0.2, 0.8, "Şimdi değil")]


def test_utf8_with_a_damaged_byte_stays_utf8(tmp_path: Path) -> None:
    path = tmp_path / "beside"
    path.write_bytes(srt(JAPANESE).encode().replace("天気".encode(), b"\xff", 1))
    output, _ = made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "subtitles"}, {"path": str(path)})
    assert [line for _, _, line in shown(output)][::2] == [JAPANESE[0][2], JAPANESE[2][2]]


def test_a_clip_an_offset_and_a_speed_move_cues_as_they_move_pictures(tmp_path: Path) -> None:
    text = {**written(tmp_path / "beside", srt()), "offset_seconds": 0.5}
    path = clip(tmp_path / "in.mkv", seconds=3)
    output, _ = made(path, tmp_path / "clip", {"type": "mp4", "video": SMALL}, text, clip={"start": 1.0, "end": 2.0})
    assert shown(output) == [(0.0, 0.3, "First line"), (0.5, 1.0, "Größer & bold")]
    fast = {"type": "mp4", "video": SMALL, "filters": [{"type": "speed", "factor": 2}]}
    output, _ = made(path, tmp_path / "fast", fast, text)
    assert [(begin, end) for begin, end, _ in shown(output)] == [(0.35, 0.65), (0.75, 1.05), (1.1, 1.2)]


@pytest.mark.parametrize("container", ["ts", "mkv"])
def test_time_0_of_the_file_is_the_first_picture_of_an_input_that_starts_late(tmp_path: Path, container: str) -> None:
    path = clip(tmp_path / f"in.{container}", start=Fraction(7))
    output, _ = made(path, tmp_path / "out", {"type": "mp4", "video": SMALL}, written(tmp_path / "beside", srt()))
    assert [(begin, end) for begin, end, _ in shown(output)] == [(begin, end) for begin, end, _ in LINES]


def test_cues_go_with_copied_video_and_end_with_the_film(tmp_path: Path) -> None:
    lines = (*LINES[:2], (1.8, 9.0, "too long"), (5.0, 6.0, "never"))
    output, _ = made(
        clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "copy", "format": "mp4"},
        written(tmp_path / "beside", srt(lines)),
    )  # fmt: skip
    assert shown(output)[-1] == (1.8, 2.0, "too long")


def test_files_come_after_the_inputs_own_tracks_and_the_default_is_theirs(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mkv", subtitles=(Subtitles(((0.1, 0.5, "own"),), default=True),))
    first = {**written(tmp_path / "a", srt(((0.1, 0.5, "beside"),))), "language": "fra", "default": True}
    second = written(tmp_path / "b", vtt(((0.1, 0.5, "other"),)))
    output, _ = made(path, tmp_path / "all", {"type": "mkv", "video": SMALL}, first, second)
    assert [shown(output, track)[0][2] for track in range(3)] == ["own", "beside", "other"]
    with av.open(str(output)) as opened:
        defaults = [bool(s.disposition & av.stream.Disposition.default) for s in opened.streams.subtitles]
    assert defaults == [False, True, False]
    chosen = {"type": "mkv", "video": SMALL, "subtitles": {"languages": ["fra"]}}
    output, _ = made(path, tmp_path / "one", chosen, first, second)
    assert shown(output) == [(0.1, 0.5, "beside")]
    output, _ = made(path, tmp_path / "file", {"type": "subtitles", "format": "vtt", "track": 2}, first, second)
    assert shown(output) == [(0.1, 0.5, "other")]


def test_a_ladder_has_them_as_webvtt(tmp_path: Path) -> None:
    text = {**written(tmp_path / "beside", srt(), "cp1252"), "language": "de", "charset": "windows-1252"}
    made(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "hls", "name": "f", "video": [{"height": 48}]}, text)
    playlist = (tmp_path / "out" / "f" / "index.m3u8").read_text()
    assert 'LANGUAGE="de"' in playlist
    segments = sorted((tmp_path / "out" / "f" / "subs-de").glob("*.vtt"))
    assert "Größer &amp; <b>bold</b>" in segments[0].read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_job_in_pieces_has_them_as_one_in_one(tmp_path: Path) -> None:
    path = clip(tmp_path / "in.mp4", seconds=6, gop=20)
    text = written(tmp_path / "beside", srt((*LINES, (2.8, 3.4, "across a joint"), (5.0, 5.5, "late"))))
    rung = {**SMALL, "gop_seconds": 2}
    asked = {"input": {"path": "in", "subtitles": [text]}, "outputs": [{"type": "mp4", "video": rung}]}
    spec = FileJob.model_validate(asked)
    file = LocalFile(path, "in", {spec.input.subtitles[0].key: tmp_path / "beside"})
    cutting = cut(spec, file, DEVICE, Limits(), CutRules(least_seconds=1, piece_seconds=2))
    assert len(cutting.pieces) == 3
    pieces = []
    for number, piece in enumerate(cutting.pieces):
        place = tmp_path / f"piece-{number}"
        place.mkdir()
        result = encode_piece(spec, piece, file, place, DEVICE, Limits(), lambda _: None, lambda _: None)
        pieces.append(Piece(path=place / "piece", result=result))
    (tmp_path / "many").mkdir()
    stitch(spec, pieces, file, tmp_path / "many", DEVICE, Limits(), lambda _: None, lambda _: None)
    one, _ = made(path, tmp_path / "one", {"type": "mp4", "video": rung}, text)
    assert shown(tmp_path / "many" / "output.mp4") == shown(one)
    assert len(shown(one)) == 5


HOSTILE = {
    "braces": "1\n00:00:00,200 --> 00:00:00,800\n" + "{" * 1_000_000 + "\n",
    "tags that are not UTF-8": "1\n00:00:00,200 --> 00:00:00,800\nÖ " + "<" * 1_000_000 + "\n",
    "one line": "1\n00:00:00,200 --> 00:00:00,800\n" + "x" * 4_000_000 + "\n",
    "far away": "1\n9999:59:59,200 --> 9999:59:59,800\nx\n\n2\n00:00:00,200 --> 00:00:00,800\nx\n",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_text_that_is_meant_to_take_long_does_not(tmp_path: Path, case: str) -> None:
    text = written(tmp_path / "beside", HOSTILE[case], "cp1252")
    began = time.process_time()
    output, _ = made(clip(tmp_path / "in.mkv", seconds=1), tmp_path / "out", {"type": "mp4", "video": SMALL}, text)
    assert time.process_time() - began < 20
    assert all(end <= 1.0 for _, end, _ in shown(output))


BROKEN: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "empty": (b"", {}, "is no SRT, ASS or WebVTT"),
    "prose": (b"Once upon a time", {}, "is no SRT, ASS or WebVTT"),
    "binary": (bytes(range(256)) * 40, {}, "is no"),
    "image": (b"\x89PNG\r\n\x1a\n" + bytes(4000), {}, "is no"),
    "no cue": (b"WEBVTT\n\nNOTE nothing\n", {}, "has not one cue"),
    "no event": (ass(()).encode(), {}, "has not one cue"),
    "another encoding": (srt().encode("cp1252"), {"charset": "utf-8"}, "is not utf-8"),
    "half of UTF-16": (b"\xff\xfea", {}, "is not utf-16"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named(tmp_path: Path, case: str) -> None:
    data, options, words = BROKEN[case]
    good, bad = written(tmp_path / "good", srt()), tmp_path / "bad"
    bad.write_bytes(data)
    with pytest.raises(BadSubtitles) as caught:
        job(clip(tmp_path / "in.mkv"), tmp_path / "out", {"type": "mkv"}, good, {"path": str(bad), **options})
    assert caught.value.code == "bad_subtitles"
    assert words in caught.value.message
    assert caught.value.facts == {"subtitles": 2, "file": f"path:{bad}"}


def test_a_file_that_is_too_large_or_no_file_is_refused(tmp_path: Path) -> None:
    path, large = clip(tmp_path / "in.mkv"), tmp_path / "large"
    large.write_bytes(srt().encode() + b"x" * (8 << 20))
    with pytest.raises(LimitExceeded) as caught:
        job(path, tmp_path / "out", {"type": "mkv"}, {"path": str(large)})
    assert caught.value.code == "limit_size"
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadSubtitles):
            job(path, tmp_path / f"out-{place.name}", {"type": "mkv"}, {"path": str(place)})


def test_what_is_not_with_the_input_is_an_error_and_not_a_track_less(tmp_path: Path) -> None:
    spec = FileJob.model_validate(
        {"input": {"path": "in", "subtitles": [{"url": "http://x/a.srt?token=1"}]}, "preset": "remux-mkv"}
    )
    with pytest.raises(PipelineError) as caught:
        examine(spec, LocalFile(clip(tmp_path / "in.mkv"), "in.mkv"), Limits())
    assert "http://x/a.srt" in caught.value.message
    assert "token" not in caught.value.message


@pytest.mark.parametrize(
    "wrong",
    [{}, {"path": "a", "url": "b"}, {"path": "a", "charset": "rot13"}, {"path": "a", "offset_seconds": 1e9},
     {"path": "a", "language": "<x>"}, {"path": "a", "title": "t" * 201}, {"path": "a", "style": "x"}],
)  # fmt: skip
def test_values_outside_their_lists_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="subtitles"):
        FileJob.model_validate({"input": {"path": "in", "subtitles": [wrong]}, "preset": "remux-mkv"})


def test_plans_say_which_file_in_which_encoding(tmp_path: Path) -> None:
    text = {**written(tmp_path / "beside", srt(RUSSIAN), "koi8-r"), "offset_seconds": -0.1}
    asked = {"input": {"path": "in", "subtitles": [text]}, "outputs": [{"type": "mp4", "video": SMALL}]}
    spec = FileJob.model_validate(asked)
    file = LocalFile(clip(tmp_path / "in.mkv"), "in", {spec.input.subtitles[0].key: tmp_path / "beside"})
    planned = plan(spec, examine(spec, file, Limits()), DEVICE)
    reason = planned.outputs[0].renditions[-1].reason
    assert (
        reason
        == f"subtitles file 1 (path:{tmp_path}/beside), koi8-r by its bytes, -0.1 s: subrip to mov_text, mp4's kind"
    )


@pytest.mark.skipif("subtitles" in DEVICE.filters, reason="this build of FFmpeg can draw text: tests/devices has that")
def test_text_is_not_drawn_by_a_build_that_can_not_and_the_plan_says_which_can(tmp_path: Path) -> None:
    output = {"type": "mp4", "video": {**SMALL, "filters": [{"type": "burn_in"}]}}
    with pytest.raises(FilterMissing) as caught:
        job(clip(tmp_path / "in.mkv"), tmp_path / "out", output, written(tmp_path / "beside", srt()))
    assert caught.value.code == "filter_missing"
    assert caught.value.facts == {"filter": "subtitles"}
    assert "container image" in caught.value.message


CAN_DRAW = DEVICE.model_copy(update={"filters": ("subtitles",)})


@pytest.mark.parametrize(
    ("filter", "words"),
    [({"track": 5}, "there is no track 5"), ({"language": "fra"}, "no subtitle track is as asked")],
)
def test_a_track_that_is_not_there_is_not_drawn(tmp_path: Path, filter: dict[str, Any], words: str) -> None:
    asked = {
        "input": {"path": "in"},
        "outputs": [{"type": "mp4", "video": {"filters": [{"type": "burn_in", **filter}]}}],
    }
    path = clip(tmp_path / "in.mkv", subtitles=(Subtitles(((0.1, 0.5, "own"),)),))
    source = examine(FileJob.model_validate(asked), LocalFile(path, "in"), Limits())
    with pytest.raises(UnsupportedSpec, match=words):
        plan(FileJob.model_validate(asked), source, CAN_DRAW)


def test_the_plan_says_what_is_drawn(tmp_path: Path) -> None:
    drawn = {"type": "burn_in", "language": "und", "size": 8, "colour": "white"}
    asked = {"input": {"path": "in"}, "outputs": [{"type": "mp4", "video": {"filters": [drawn]}}]}
    path = clip(tmp_path / "in.mkv", subtitles=(Subtitles(((0.1, 0.5, "own"),)),))
    source = examine(FileJob.model_validate(asked), LocalFile(path, "in"), Limits())
    rendition = plan(FileJob.model_validate(asked), source, CAN_DRAW).outputs[0].renditions[0]
    assert isinstance(rendition, VideoRendition)
    assert rendition.filters[-1] == BurnIn(stream=1, size=8, colour="#ffffff", width=64, height=48)
    assert "subtitle track 0 drawn into it, in memory" in rendition.reason


def test_a_style_is_numbers_and_colours() -> None:
    step = BurnIn(
        stream=1, size=5, colour="#12ab34", outline=0.5, outline_colour="#000000", margin=4, position="top",
        width=64, height=48,
    )  # fmt: skip
    assert style_of(step, 288) == (
        "Fontsize=14.40,PrimaryColour=&H0034AB12,Outline=1.44,OutlineColour=&H00000000,MarginV=12,Alignment=6"
    )
    assert style_of(BurnIn(stream=1, width=64, height=48), 288) == ""
