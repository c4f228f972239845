"""Thumbnails: which moment each shows, what their indexes say, how many there may be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import LimitExceeded, UnsupportedSpec
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.rendition import Plan
from tests.media import make_audio, make_video
from tests.pictures import DEVICE, go, job
from tests.signals import plain_picture
from tests.stills import Cue, crop, cues_in, make_counted, picture, time_shown

FRAME = 0.1


def thumbnails(**fields: Any) -> dict[str, Any]:
    return {"type": "thumbnails", "name": "t", **fields}


def planned(path: Path, *outputs: dict[str, Any]) -> Plan:
    return plan(job(path, *outputs), probe(LocalFile(path, path.name), Limits()), DEVICE)


def stills(folder: Path) -> list[tuple[Cue, float]]:
    """Each cue of the index, and the time that its picture shows."""
    return [(cue, time_shown(picture(folder / "t" / cue.file))) for cue in cues_in(folder / "t" / "thumbnails.vtt")]


@pytest.mark.parametrize("format", ["jpg", "webp"])
def test_each_still_shows_what_is_on_screen_when_its_cue_begins(tmp_path: Path, format: str) -> None:
    source = make_counted(tmp_path / "in.mp4")
    go(source, tmp_path / "out", thumbnails(format=format, pick={"mode": "interval", "seconds": 0.5}, decode="exact"))
    found = stills(tmp_path / "out")
    assert [cue.begin for cue, _ in found] == [n / 2 for n in range(8)]
    assert [cue.end for cue, _ in found] == [(n + 1) / 2 for n in range(8)]
    for cue, shown in found:
        assert shown == pytest.approx(cue.begin, abs=FRAME * 0.45)


def test_moments_between_pictures_show_the_one_before(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    go(source, tmp_path / "out", thumbnails(pick={"mode": "interval", "seconds": 0.77}))
    for cue, shown in stills(tmp_path / "out"):
        assert cue.begin - FRAME - 0.03 < shown <= cue.begin + 0.03


def test_so_many_are_from_the_middles_of_equal_parts(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    go(source, tmp_path / "out", thumbnails(pick={"mode": "count", "count": 4}, decode="exact"))
    found = stills(tmp_path / "out")
    assert [cue.begin for cue, _ in found] == [0, 1, 2, 3]
    for cue, shown in found:
        assert shown == pytest.approx(cue.begin + 0.5, abs=FRAME)


def test_every_sprite_is_inside_its_sheet_and_shows_its_moment(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    sprites = {"columns": 3, "rows": 2, "width": 40}
    result = go(
        source,
        tmp_path / "out",
        thumbnails(pick={"mode": "interval", "seconds": 0.5}, stills=False, sprites=sprites, decode="exact"),
    )
    written = result.outputs[0]
    assert written.path == "t/sprites.vtt"
    assert sorted(written.all_files) == ["t/sprites-001.jpg", "t/sprites-002.jpg", "t/sprites.vtt"]
    assert written.size == sum((tmp_path / "out" / path).stat().st_size for path in written.all_files)
    cues = cues_in(tmp_path / "out" / "t" / "sprites.vtt")
    sheets = {name: picture(tmp_path / "out" / "t" / name) for name in {cue.file for cue in cues}}
    assert sheets["sprites-001.jpg"].shape == (2 * 27, 3 * 40, 3)
    assert sheets["sprites-002.jpg"].shape == (27, 2 * 40, 3), "the last sheet is no larger than what is on it"
    assert len(cues) == 8
    for cue in cues:
        assert cue.box is not None
        assert cue.box[2:] == (40, 27)
        tile = crop(sheets[cue.file], cue.box)[2:-2, 2:-2]
        assert time_shown(tile) == pytest.approx(cue.begin, abs=FRAME / 2)


def test_scenes_are_found_where_they_begin(tmp_path: Path) -> None:
    lumas = [40] * 10 + [200] * 15 + [90] * 15
    frames = (plain_picture((96, 64), luma) for luma in lumas)
    source = make_video(tmp_path / "in.mp4", size=(96, 64), rate=10, seconds=4, frames=frames, audio=())
    go(source, tmp_path / "out", thumbnails(pick={"mode": "scenes"}))
    cues = cues_in(tmp_path / "out" / "t" / "thumbnails.vtt")
    assert [(cue.begin, cue.end) for cue in cues] == [(0, 1), (1, 2.5), (2.5, 4)]
    levels = [picture(tmp_path / "out" / "t" / cue.file).mean() for cue in cues]
    assert levels == pytest.approx([(luma - 16) * 255 / 219 for luma in (40, 200, 90)], abs=3)


def test_scenes_above_the_limit_are_left_out_and_said(tmp_path: Path) -> None:
    frames = (plain_picture((96, 64), 40 if number // 5 % 2 else 200) for number in range(40))
    source = make_video(tmp_path / "in.mp4", size=(96, 64), rate=10, seconds=4, frames=frames, audio=())
    pick = {"mode": "scenes", "min_seconds": 0.2}
    result = go(source, tmp_path / "out", thumbnails(pick=pick, max_pictures=3))
    assert result.outputs[0].renditions[0].frames == 3
    assert [warning.code for warning in result.warnings] == ["pictures_limited"]


def test_more_pictures_than_allowed_are_refused_before_work(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4")
    with pytest.raises(LimitExceeded) as caught:
        planned(source, thumbnails(pick={"mode": "interval", "seconds": 0.1}, max_pictures=39))
    assert caught.value.code == "limit_pictures"
    assert caught.value.facts == {"limit": 39, "pictures": 40}
    assert planned(source, thumbnails(pick={"mode": "interval", "seconds": 0.1}, max_pictures=40))


def test_an_input_without_duration_is_refused_when_it_gives_too_many(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.webm", codec="vp9", container_options={"live": "1"})
    assert probe(LocalFile(source, source.name), Limits()).duration_seconds is None
    with pytest.raises(LimitExceeded) as caught:
        go(source, tmp_path / "out", thumbnails(pick={"mode": "interval", "seconds": 0.1}, max_pictures=9))
    assert caught.value.code == "limit_pictures"


def test_an_input_without_duration_is_measured_where_the_moments_depend_on_it(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.webm", codec="vp9", container_options={"live": "1"})
    asked = thumbnails(pick={"mode": "count", "count": 4})
    rendition = planned(source, asked).outputs[0].pictures
    assert rendition is not None
    assert rendition.measures_duration
    assert "read once before" in rendition.reason
    go(source, tmp_path / "out", asked)
    for (cue, shown), begin in zip(stills(tmp_path / "out"), (0, 1, 2, 3), strict=True):
        assert cue.begin == begin
        assert shown == pytest.approx(begin + 0.5, abs=FRAME)


def test_keyframes_alone_are_decoded_where_they_are_near_enough(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4", gop=5, b_frames=2)
    asked = thumbnails(pick={"mode": "interval", "seconds": 0.6})
    assert planned(source, asked).decode[0].keyframes_only
    result = go(source, tmp_path / "out", asked)
    assert result.frames_decoded == 8
    for cue, shown in stills(tmp_path / "out"):
        assert shown == pytest.approx(cue.begin, abs=0.3), "half an interval"
    assert not planned(source, thumbnails(pick={"mode": "interval", "seconds": 0.4})).decode[0].keyframes_only
    assert not planned(source, asked | {"decode": "exact"}).decode[0].keyframes_only


def test_keyframes_as_asked_are_the_nearest(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mkv", gop=20)
    result = go(source, tmp_path / "out", thumbnails(pick={"mode": "interval", "seconds": 0.5}, decode="keyframes"))
    assert result.frames_decoded == 2
    assert [round(shown, 1) for _, shown in stills(tmp_path / "out")] == [0, 0, 0, 2, 2, 2, 2, 2]


def test_truncated_input_is_found_though_only_keyframes_are_decoded(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mkv", gop=5)
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(source.read_bytes()[: source.stat().st_size * 2 // 3])
    with pytest.raises(Exception, match="ends") as caught:
        go(cut, tmp_path / "out", thumbnails(pick={"mode": "interval", "seconds": 1}, decode="keyframes"))
    assert getattr(caught.value, "code", None) == "truncated"


def test_every_picture_is_decoded_when_a_rendition_needs_them(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4", gop=5)
    small = {"type": "mp4", "name": "m", "video": {"speed": "ultrafast"}}
    asked = thumbnails(pick={"mode": "interval", "seconds": 1})
    assert not planned(source, asked, small).decode[0].keyframes_only
    result = go(source, tmp_path / "out", asked, small, {"type": "hls", "name": "h", "video": [{"height": 32}]})
    assert result.frames_decoded == 40, "once for all outputs"
    assert len(stills(tmp_path / "out")) == 4
    for cue, shown in stills(tmp_path / "out"):
        assert shown == pytest.approx(cue.begin, abs=FRAME)


def test_variable_timing_shows_what_is_on_screen(tmp_path: Path) -> None:
    times = [Fraction(0), Fraction(1, 10), Fraction(2), Fraction(5, 2)]
    frames = (plain_picture((96, 64), luma) for luma in (40, 80, 120, 160))
    source = make_video(
        tmp_path / "in.mp4", size=(96, 64), frames=frames, timestamps=times, end=Fraction(3), audio=(), seconds=3
    )
    go(source, tmp_path / "out", thumbnails(pick={"mode": "interval", "seconds": 0.5}, decode="exact"))
    found = cues_in(tmp_path / "out" / "t" / "thumbnails.vtt")
    levels = [picture(tmp_path / "out" / "t" / cue.file).mean() * 219 / 255 + 16 for cue in found]
    assert levels == pytest.approx([40, 80, 80, 80, 120, 160], abs=3)


def test_clip_counts_from_its_own_start(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4", start=Fraction(7))
    path = tmp_path / "out"
    path.mkdir()
    spec = job(source, thumbnails(pick={"mode": "interval", "seconds": 0.5}, decode="exact")).model_dump(mode="json")
    spec["input"]["clip"] = {"start": 1, "end": 3}
    from pipelines.spec import FileJob
    from pipelines.transcode import transcode

    transcode(FileJob.model_validate(spec), LocalFile(source, source.name), path, device=DEVICE, limits=Limits())
    found = stills(path)
    assert [cue.begin for cue, _ in found] == [0, 0.5, 1, 1.5]
    for cue, shown in found:
        assert shown == pytest.approx(cue.begin + 1, abs=FRAME / 3)


def test_sound_alone_has_no_pictures(tmp_path: Path) -> None:
    source = make_audio(tmp_path / "in.m4a")
    with pytest.raises(UnsupportedSpec, match="no video to take pictures of"):
        planned(source, thumbnails())


def test_sheets_beyond_what_readers_take_are_refused(tmp_path: Path) -> None:
    source = make_counted(tmp_path / "in.mp4", size=(640, 360))
    with pytest.raises(UnsupportedSpec, match="a sheet would be"):
        planned(source, thumbnails(sprites={"columns": 50, "rows": 50, "width": 640}))
