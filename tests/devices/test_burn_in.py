"""Text drawn into pictures, where FFmpeg has libass: the image's has, PyAV's wheel has not."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.acceptance.live import live_server
from tests.devices import gpu_plans
from tests.jobs import DEVICE
from tests.measure import decode_video
from tests.media import Subtitles, make_video
from tests.pipelines.test_subtitles_beside import ass, clip, made, srt, written
from tests.signals import plain_picture
from tests.softva.rig import Rig
from transcoder.client import Client

pytestmark = pytest.mark.skipif(
    "subtitles" not in DEVICE.filters, reason="this build of FFmpeg can't draw text: run in the image, or on its FFmpeg"
)
SIZE = (320, 240)
CUES = ((0.4, 0.8, "MMMM"), (1.2, 1.6, "MMMM MMMM"))


def dark(path: Path, seconds: float = 2, **options: Any) -> Path:
    frames = [plain_picture(SIZE, 40) for _ in range(round(seconds * 25))]
    return make_video(path, **{"size": SIZE, "frames": frames, "seconds": seconds, "audio": ()} | options)


def output(*, video: dict[str, Any] | None = None, **filter: Any) -> dict[str, Any]:
    rung = {"speed": "ultrafast", "filters": [{"type": "burn_in", **filter}], **(video or {})}
    return {"type": "mp4", "video": rung, "subtitles": None}


def luma(path: Path) -> list[tuple[float, Any]]:
    """Time and luma of each picture."""
    return [(round(float(f.pts * f.time_base), 3), f.to_ndarray(format="gray")) for f in decode_video(path).frames]


def lit(path: Path) -> list[float]:
    """When text is on screen."""
    return [time for time, picture in luma(path) if int((picture > 120).sum()) > 20]


def box(path: Path, at: float) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of what is lit."""
    picture = min(luma(path), key=lambda each: abs(each[0] - at))[1]
    rows, columns = np.where(picture > 120)
    return int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max())


def grid(*spans: tuple[float, float]) -> list[float]:
    return [n / 25 for n in range(100) for begin, end in spans if begin - 0.001 <= n / 25 < end - 0.001]


@pytest.mark.parametrize(("container", "codec"), [("mkv", "subrip"), ("mkv", "ass"), ("mp4", "mov_text")])
def test_a_track_of_the_input_is_drawn_when_it_is_shown(tmp_path: Path, container: str, codec: str) -> None:
    path = dark(tmp_path / f"in.{container}", subtitles=(Subtitles(CUES, codec),))
    out, result = made(path, tmp_path / "out", output())
    assert lit(out) == pytest.approx(grid(*((begin, end) for begin, end, _ in CUES)))
    left, top, right, bottom = box(out, 0.5)
    assert top > 150
    assert abs((left + right) - SIZE[0]) < 10
    assert bottom < SIZE[1]
    assert not [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".")]
    assert not result.warnings


def test_a_file_beside_it_is_drawn_on_the_clock_of_a_clip_at_another_speed(tmp_path: Path) -> None:
    path = dark(tmp_path / "in.mkv", 3, start=Fraction(5))
    text = {**written(tmp_path / "a.srt", srt(CUES), "utf-16"), "offset_seconds": 0.2}
    out, _ = made(path, tmp_path / "clip", output(), text, clip={"start": 0.8, "end": 2.4})
    assert lit(out) == pytest.approx(grid((0.0, 0.2), (0.6, 1.0)))
    fast = {**output(), "filters": [{"type": "speed", "factor": 2}]}
    out, _ = made(path, tmp_path / "fast", fast, text)
    assert lit(out) == pytest.approx([n / 50 for n in (*range(15, 25), *range(35, 45))], abs=0.021)


def test_times_hold_where_a_transport_streams_clock_starts_late(tmp_path: Path) -> None:
    path = dark(tmp_path / "in.ts", start=Fraction(9))
    out, _ = made(path, tmp_path / "out", output(), written(tmp_path / "a.srt", srt(CUES)))
    assert lit(out) == pytest.approx(grid(*((begin, end) for begin, end, _ in CUES)))


def test_size_colour_outline_and_place_are_as_asked(tmp_path: Path) -> None:
    path, text = dark(tmp_path / "in.mkv"), written(tmp_path / "a.srt", srt(CUES))
    usual = box(made(path, tmp_path / "usual", output(), text)[0], 0.5)
    large = box(made(path, tmp_path / "large", output(size=12), text)[0], 0.5)
    assert large[3] - large[1] > 1.7 * (usual[3] - usual[1])
    top = box(made(path, tmp_path / "top", output(position="top", margin=20), text)[0], 0.5)
    assert 0.18 * SIZE[1] < top[1] < top[3] < SIZE[1] / 2
    lifted = box(made(path, tmp_path / "lifted", output(margin=30), text)[0], 0.5)
    assert lifted[3] < 0.72 * SIZE[1]
    red, _ = made(path, tmp_path / "red", output(size=20, colour="#ff0000", outline=0), text)
    picture = decode_video(red).frames[12].to_ndarray(format="rgb24").astype(int)
    assert int(((picture[..., 0] > 180) & (picture[..., 1] < 80)).sum()) > 500
    assert int((picture.min(axis=2) > 120).sum()) == 0


def test_styles_of_ass_are_kept_unless_others_are_asked_for(tmp_path: Path) -> None:
    path, text = dark(tmp_path / "in.mkv"), written(tmp_path / "a.ass", ass(CUES))
    out, _ = made(path, tmp_path / "own", output(), text)
    assert box(out, 0.5)[1] < SIZE[1] / 3
    picture = decode_video(out).frames[12].to_ndarray(format="rgb24").astype(int)
    assert int(((picture[..., 0] > 150) & (picture[..., 1] > 150) & (picture[..., 2] < 90)).sum()) > 30
    out, _ = made(path, tmp_path / "other", output(position="bottom"), text)
    assert box(out, 0.5)[1] > SIZE[1] / 2


def test_letters_keep_their_shape_where_pixels_are_not_square(tmp_path: Path) -> None:
    text = written(tmp_path / "a.srt", srt(CUES))
    square = box(made(dark(tmp_path / "a.mkv"), tmp_path / "square", output(size=12), text)[0], 0.5)
    path = dark(tmp_path / "b.mkv", sar=Fraction(2))
    kept = {"width": 640, "height": 240}
    wide = box(made(path, tmp_path / "wide", output(size=12, video=kept), text)[0], 0.5)
    assert wide[3] - wide[1] == pytest.approx(square[3] - square[1], abs=3)
    shape = 2 if decode_video(tmp_path / "wide" / "output.mp4").frames[0].width == SIZE[0] else 1
    assert (wide[2] - wide[0]) * shape == pytest.approx(square[2] - square[0], rel=0.08)


@pytest.mark.parametrize("video", [{"codec": "hevc", "pixel_format": "yuv420p10le"}, {"height": 120}, {"height": 90}])
def test_any_size_and_depth_is_drawn_on(tmp_path: Path, video: dict[str, Any]) -> None:
    path, text = dark(tmp_path / "in.mkv"), written(tmp_path / "a.srt", srt(CUES))
    out, _ = made(path, tmp_path / "out", output(video=video, size=20), text)
    assert lit(out) == pytest.approx(grid(*((begin, end) for begin, end, _ in CUES)))


HOSTILE = (
    "{\\fn/etc/passwd}{\\p1}m 0 0 l 9999999 0 9999999 9999999{\\p0}",
    "a,b:c'd\\,[out];movie=/etc/passwd",
    "{" * 500,
)


@pytest.mark.parametrize("line", HOSTILE)
def test_text_is_text_whatever_it_says(tmp_path: Path, line: str) -> None:
    folder = tmp_path / "it's [a] folder:with,words"
    folder.mkdir()
    lines = ((0.4, 0.8, "MMMM"), (1.2, 1.6, line))
    out, _ = made(dark(folder / "in.mkv"), folder / "out", output(), written(folder / "a.srt", srt(lines)))
    assert set(grid((0.4, 0.8))) <= set(lit(out))


def test_a_ladder_is_drawn_on_and_a_rung_says_so(tmp_path: Path) -> None:
    path, text = clip(tmp_path / "in.mkv"), written(tmp_path / "a.srt", srt(CUES))
    ladder = {
        "type": "hls",
        "name": "f",
        "video": [{"height": 48}],
        "filters": [{"type": "burn_in"}],
        "subtitles": None,
    }
    _, result = made(path, tmp_path / "out", ladder, text)
    assert result.outputs[0].renditions[0].frames == 50


@pytest.mark.vaapi
def test_pictures_of_a_gpu_are_brought_to_memory_and_back(tmp_path: Path, rig: Rig) -> None:
    path = dark(tmp_path / "in.mkv", subtitles=(Subtitles(CUES),), bit_rate=2_000_000)
    places = gpu_plans.Places(filters="software")
    out = gpu_plans.made(path, tmp_path / "out", rig.node(), places, filters=[{"type": "burn_in", "size": 15}])
    assert rig.log.downloads() > 0
    assert rig.log.uploads() > 0
    assert rig.log.pictures("encode") == 50
    assert lit(out) == pytest.approx(grid(*((b, e) for b, e, _ in CUES)))


@pytest.mark.slow
def test_it_works_in_the_sandbox_of_the_service(tmp_path: Path) -> None:
    dark(tmp_path / "in.mkv", subtitles=(Subtitles(CUES),))
    with (
        live_server(TRANSCODER_SOFTWARE_SLOTS="1", TRANSCODER_MEDIA_ROOTS=str(tmp_path)) as server,
        Client(server.address) as client,
    ):
        health = httpx2.get(f"{server.address}/healthz").json()
        job = client.wait(client.submit({"input": {"path": "in.mkv"}, "outputs": [output(size=15)]}).id)
        client.download(job, tmp_path / "fetched")
    assert health["sandbox"]["landlock"], "nothing was confined"
    assert lit(tmp_path / "fetched" / "output.mp4") == pytest.approx(grid(*((b, e) for b, e, _ in CUES)))


@pytest.mark.slow
def test_a_machine_without_fonts_is_told_and_nothing_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fonts.conf").write_text("<?xml version='1.0'?><fontconfig></fontconfig>")
    script = (
        "import sys; from contextlib import ExitStack; from pathlib import Path\n"
        "from pipelines.captions.drawing import check_fonts; from pipelines.errors import FilterMissing\n"
        "with ExitStack() as stack:\n"
        "    try: check_fonts(Path(sys.argv[1]), stack)\n"
        "    except FilterMissing as error: print(error.message)\n"
    )
    monkeypatch.setenv("FONTCONFIG_FILE", str(tmp_path / "fonts.conf"))
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "no font is installed" in done.stdout
