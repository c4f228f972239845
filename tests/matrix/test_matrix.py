"""Codec × container × pixel format × sample rate × layout, every two of them together at least once.

    pytest -m slow tests/matrix

Each output is opened again: frames, duration, PSNR, flash and click, tags, defaults, decode order.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.stream import Disposition
from av.video.frame import VideoFrame

from pipelines.encoders import LAYOUTS as CODEC_LAYOUTS
from pipelines.sound.downmix import LAYOUTS, carrier, speakers
from pipelines.spec import AUDIO_CODECS, VIDEO_CODECS
from tests.jobs import transcoded
from tests.matrix.pairs import Case, covering, every_pair, pairs_of
from tests.measure import assert_dts_rising, click_times, decode_audio, decode_video, flash_times, psnr
from tests.media import Mark, Subtitles, Tone, make_video

AXES: dict[str, tuple[str, ...]] = {
    "container": ("mp4", "mov", "mkv", "webm", "ts"),
    "codec": ("h264", "hevc", "av1", "vp9"),
    "sound": ("aac", "opus", "mp3", "flac"),
    "pixels": ("yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv420p10le", "yuv422p10le", "gray", "bgr0", "yuva420p"),
    "rate": ("8000", "22050", "32000", "44100", "48000", "96000"),
    "layout": ("mono", "stereo", "2.1", "quad", "5.1", "5.1(side)", "6.1", "7.1", "6 channels"),
}
SIZE = (160, 120)
RATE = 30
SECONDS = 2
FLASHES = (Fraction(1, 2), Fraction(3, 2))
TITLED = ("mp4", "mov", "mkv", "webm")
PSNR_FLOOR = 30
"""dB of luma, at each codec's usual quality and its fastest speed."""
SYNC_SECONDS = {"ts": 0.022}
"""One AAC frame where priming can't be said; 10 ms elsewhere."""


def is_carried(case: Case) -> bool:
    return case["codec"] in VIDEO_CODECS[case["container"]] and case["sound"] in AUDIO_CODECS[case["container"]]


CASES = covering(AXES, is_carried)


def name_of(case: Case) -> str:
    return "-".join(case.values())


def test_every_two_values_that_may_meet_meet() -> None:
    assert set().union(*(pairs_of(case) for case in CASES)) == every_pair(AXES, is_carried)
    assert len(CASES) <= 90


def pictures(pixels: str) -> Iterator[VideoFrame]:
    """A dark moving wave, white at each flash."""
    width, height = SIZE
    across = np.arange(width)[None, :] / width
    down = np.arange(height)[:, None] / height
    flashes = {int(time * RATE) for time in FLASHES}
    for number in range(SECONDS * RATE):
        wave = 50 + 30 * np.sin(2 * np.pi * (2 * across + down + number / RATE))
        luma = np.full((height, width), 235.0) if number in flashes else np.broadcast_to(wave, (height, width))
        planes = np.full((height * 3 // 2, width), 128, np.uint8)
        planes[:height] = luma.astype(np.uint8)
        yield VideoFrame.from_ndarray(planes, format="yuv420p").reformat(format=pixels)


def source_of(case: Case, path: Path) -> Path:
    """Matroska, which tells the number of channels only: 2.1 arrives as three channels without names."""
    return make_video(
        path,
        size=SIZE,
        rate=RATE,
        seconds=SECONDS,
        codec="mjpeg" if case["pixels"] == "yuvj420p" else "ffv1",
        pixel_format=case["pixels"],
        frames=pictures(case["pixels"]),
        audio=(
            Tone(
                "pcm_s16le", case["layout"], int(case["rate"]), clicks=FLASHES, amplitude=0.8, language="eng",
                title="Sound", default=True,
            ),
        ),
        subtitles=(Subtitles(((0.5, 1.0, "cue"),), language="ger", title="Text"),),
        chapters=(Mark(0, 1, "one"), Mark(1, 2, "two")),
        metadata={"title": "Matrix"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_an_output_is_what_went_in(tmp_path: Path, case: Case) -> None:
    source = source_of(case, tmp_path / "in.mkv")
    spec: dict[str, Any] = {
        "type": case["container"],
        "video": {"codec": case["codec"], "speed": "ultrafast"},
        "audio": {"codec": case["sound"]},
    }
    output, result = transcoded(source, tmp_path / "out", spec)
    pictures_are_the_same(source, output)
    sound_is_in_time(case, source, output)
    labels_are_kept(case, output)
    assert_dts_rising(output)
    expected = {"subtitle_dropped"} if case["container"] == "ts" else set()
    assert {warning.code for warning in result.warnings} == expected
    assert result.outputs[0].duration_seconds == pytest.approx(SECONDS, abs=0.03)


def pictures_are_the_same(source: Path, output: Path) -> None:
    before, after = decode_video(source), decode_video(output)
    assert len(after.frames) == len(before.frames) == SECONDS * RATE
    steps = [float(b - a) for a, b in zip(after.times, after.times[1:], strict=False)]
    assert steps == pytest.approx([1 / RATE] * len(steps), abs=0.0011)
    assert psnr(before, after) > PSNR_FLOOR


def sound_is_in_time(case: Case, source: Path, output: Path) -> None:
    told, heard = decode_audio(source), decode_audio(output)
    names = speakers(told.layout, told.samples.shape[0])
    layout = carrier(names, CODEC_LAYOUTS[case["sound"]])
    assert heard.samples.shape[0] == len(LAYOUTS[layout])
    assert heard.seconds == pytest.approx(SECONDS, abs=0.15)
    flashes, clicks = flash_times(output), click_times(output)
    assert len(flashes) == len(clicks) == len(FLASHES)
    tolerance = SYNC_SECONDS.get(case["container"], 0.01)
    assert clicks == pytest.approx([float(flash) for flash in flashes], abs=tolerance)


def labels_are_kept(case: Case, output: Path) -> None:
    container = case["container"]
    with av.open(str(output)) as opened:
        streams = list(opened.streams)
        sound = opened.streams.audio[0]
        assert sound.metadata["language"] == "eng"
        if container not in TITLED:
            return
        assert opened.metadata["title"] == "Matrix"
        for kind in ("video", "audio"):
            assert sum(bool(s.disposition & Disposition.default) for s in streams if s.type == kind) == 1
        assert [entry["metadata"].get("title") for entry in opened.chapters()] == ["one", "two"]
        subtitle = opened.streams.subtitles[0]
        assert subtitle.metadata["language"] == "ger"
        assert sum(1 for packet in opened.demux(subtitle) if packet.size > 2) == 1
