"""Runs on generated media: what comes out is measured, never assumed."""

from __future__ import annotations

import itertools
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.devices import software_device
from pipelines.encode import open_encoder
from pipelines.errors import BadInput, Cancelled, DiskFull, EncoderRejected, NoFrames, PipelineError, Truncated
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.result import Progress, Result
from pipelines.spec import FileJob
from pipelines.transcode import transcode
from tests.measure import (
    assert_dts_rising,
    decode_audio,
    decode_video,
    frame_psnr,
    moov_is_first,
    packet_times,
    psnr,
    sample_entries,
    tones,
)
from tests.media import Tone, make_audio, make_video

DEVICE = software_device(1)
FAST: dict[str, Any] = {"speed": "ultrafast", "height": 120}


def go(path: Path, folder: Path, *outputs: dict[str, Any], **job: Any) -> Result:
    """Transcodes `path` into `folder`."""
    spec = FileJob.model_validate(
        {"input": {"path": path.name, **job.pop("input", {})}, "outputs": list(outputs), **job}
    )
    folder.mkdir(exist_ok=True)
    return transcode(spec, LocalFile(path, path.name), folder, device=DEVICE, limits=Limits())


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 s of 320×240 at 25 fps with B-frames and two different tones."""
    path = tmp_path_factory.mktemp("media") / "clip.mp4"
    return make_video(path, b_frames=2, gop=25, audio=(Tone(frequencies=(440, 880)),))


COMBINATIONS = [
    ("mp4", "h264", "aac"), ("mp4", "hevc", "opus"), ("mp4", "av1", "flac"), ("mov", "h264", "aac"),
    ("mkv", "vp9", "mp3"), ("mkv", "hevc", "flac"), ("webm", "vp9", "opus"), ("webm", "av1", "opus"),
    ("ts", "h264", "aac"), ("ts", "hevc", "mp3"),
]  # fmt: skip


@pytest.mark.parametrize(("container", "codec", "sound"), COMBINATIONS)
def test_every_container_has_all_frames_sound_in_time_and_rising_dts(
    clip: Path, tmp_path: Path, container: str, codec: str, sound: str
) -> None:
    result = go(
        clip, tmp_path / "out", {"type": container, "video": {**FAST, "codec": codec}, "audio": {"codec": sound}}
    )
    path = tmp_path / "out" / result.outputs[0].path
    pictures, heard = decode_video(path), decode_audio(path)
    assert len(pictures.frames) == 50
    assert (pictures.frames[0].width, pictures.frames[0].height) == (160, 120)
    assert all(
        abs((b - a) - Fraction(1, 25)) <= Fraction(1, 1000)
        for a, b in zip(pictures.times, pictures.times[1:], strict=False)
    )
    assert abs(heard.seconds - 2) < 0.06
    assert [round(tone, -1) for tone in tones(heard)] == [440, 880]
    assert psnr(clip, path) > 22
    assert_dts_rising(path)


@pytest.mark.parametrize(("form", "codec"), [("m4a", "aac"), ("mp3", "mp3float"), ("opus", "opus"), ("flac", "flac")])
def test_audio_outputs_hold_the_sound_alone(clip: Path, tmp_path: Path, form: str, codec: str) -> None:
    result = go(clip, tmp_path, {"type": "audio", "format": form})
    path = tmp_path / result.outputs[0].path
    with av.open(str(path)) as container:
        assert [stream.codec_context.name for stream in container.streams] == [codec]
    heard = decode_audio(path)
    assert [round(tone, -1) for tone in tones(heard)] == [440, 880]
    assert abs(heard.seconds - 2) < 0.03


@pytest.mark.parametrize("form", ["mp4", "mov", "mkv", "ts"])
def test_remux_keeps_every_packet(clip: Path, tmp_path: Path, form: str) -> None:
    result = go(clip, tmp_path, {"type": "copy", "format": form})
    path = tmp_path / result.outputs[0].path
    assert len(packet_times(path)) == len(packet_times(clip)) == 50
    assert psnr(clip, path) > 60
    assert_dts_rising(path)


def test_mp4_starts_with_its_index_and_hevc_is_hvc1(clip: Path, tmp_path: Path) -> None:
    result = go(clip, tmp_path, {"type": "mp4", "video": {**FAST, "codec": "hevc"}})
    path = tmp_path / result.outputs[0].path
    assert moov_is_first(path)
    assert sample_entries(path)[0] == "hvc1"


def test_one_decode_feeds_every_rendition(clip: Path, tmp_path: Path) -> None:
    result = go(
        clip, tmp_path,
        {"type": "mp4", "name": "a", "video": {**FAST, "height": 240}},
        {"type": "mkv", "name": "b", "video": {**FAST, "height": 120}},
        {"type": "webm", "name": "c", "video": {**FAST, "height": 60}},
        {"type": "audio", "name": "d", "format": "mp3"},
        {"type": "copy", "name": "e", "format": "mkv"},
    )  # fmt: skip
    assert result.frames_decoded == 50
    assert [o.path for o in result.outputs] == ["a.mp4", "b.mkv", "c.webm", "d.mp3", "e.mkv"]
    heights = [decode_video(tmp_path / o.path, limit=1).frames[0].height for o in result.outputs if o.name in "abc"]
    assert heights == [240, 120, 60]
    assert len(packet_times(tmp_path / "e.mkv")) == 50


def test_quality_follows_crf(clip: Path, tmp_path: Path) -> None:
    values = []
    for crf in (18, 30, 42):
        rung = {"speed": "veryfast", "rate_control": {"mode": "crf", "crf": crf}}
        result = go(clip, tmp_path / str(crf), {"type": "mp4", "video": rung, "audio": None})
        values.append((psnr(clip, tmp_path / str(crf) / result.outputs[0].path), result.outputs[0].size))
    assert values[0][0] > values[1][0] > values[2][0]
    assert values[0][1] > values[1][1] > values[2][1]


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "vp9"])
@pytest.mark.parametrize("mode", ["vbr", "cbr"])
def test_bitrates_are_met(tmp_path: Path, codec: str, mode: str) -> None:
    path = make_video(tmp_path / "in.mkv", seconds=8, audio=(), size=(320, 180))
    rung = {"codec": codec, "speed": "ultrafast", "rate_control": {"mode": mode, "bitrate": 300_000}}
    written = go(path, tmp_path, {"type": "mkv", "video": rung, "audio": None}).outputs[0].renditions[0]
    assert 0.6 < written.bytes * 8 / written.duration_seconds / 300_000 < 1.4


@pytest.mark.parametrize("codec", ["h264", "hevc", "av1", "vp9"])
def test_keyframes_come_at_each_gop(clip: Path, tmp_path: Path, codec: str) -> None:
    result = go(clip, tmp_path, {"type": "mkv", "video": {**FAST, "codec": codec, "gop_seconds": 0.5}, "audio": None})
    keys = sorted(pts for pts, _, key in packet_times(tmp_path / result.outputs[0].path) if key and pts is not None)
    assert max(b - a for a, b in itertools.pairwise(keys)) <= 520
    assert keys[0] == 0
    assert len(keys) >= 4


@pytest.mark.parametrize("rate", [10, 50, "30000/1001"])
def test_a_constant_rate_is_constant(clip: Path, tmp_path: Path, rate: Any) -> None:
    result = go(clip, tmp_path, {"type": "mp4", "video": {**FAST, "frame_rate": rate}, "audio": None})
    times = decode_video(tmp_path / result.outputs[0].path).times
    exact = Fraction(rate)
    assert abs(len(times) - 2 * exact) <= 1
    assert all(abs(b - a - 1 / exact) <= Fraction(1, 50_000) for a, b in itertools.pairwise(times))


def test_a_clip_is_frame_accurate(clip: Path, tmp_path: Path) -> None:
    result = go(
        clip, tmp_path, {"type": "mp4", "video": {"speed": "ultrafast"}}, input={"clip": {"start": 0.6, "end": 1.4}}
    )
    path = tmp_path / result.outputs[0].path
    cut, whole = decode_video(path), decode_video(clip)
    assert len(cut.frames) == 20
    assert cut.times[0] == 0
    right = frame_psnr(whole.frames[15:35], cut.frames)
    assert right > frame_psnr(whole.frames[14:34], cut.frames) + 1
    assert right > frame_psnr(whole.frames[16:36], cut.frames) + 1
    assert abs(decode_audio(path).seconds - 0.8) < 0.03


def test_a_clip_from_late_in_a_long_gop_is_exact(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mkv", seconds=6, gop=150, b_frames=2)
    result = go(path, tmp_path / "out", {"type": "mp4", "video": FAST}, input={"clip": {"start": 5}})
    assert len(decode_video(tmp_path / "out" / result.outputs[0].path).frames) == 25


def test_a_copied_clip_starts_at_the_keyframe_before(clip: Path, tmp_path: Path) -> None:
    result = go(clip, tmp_path, {"type": "copy", "format": "mkv"}, input={"clip": {"start": 1.5}})
    path = tmp_path / result.outputs[0].path
    assert [w.code for w in result.warnings] == ["clip_at_keyframe"]
    assert len(decode_video(path).frames) == 25
    assert decode_video(path).times[0] < Fraction(1, 20)


def test_variable_timing_is_kept(tmp_path: Path) -> None:
    times = [Fraction(n, 1000) for n in (0, 20, 100, 117, 300, 333, 700, 725, 1000, 1500)]
    path = make_video(tmp_path / "in.mkv", timestamps=times, audio=(), time_base=Fraction(1, 1000))
    for container in ("mp4", "mkv", "ts"):
        result = go(path, tmp_path / container, {"type": container, "video": FAST})
        got = decode_video(tmp_path / container / result.outputs[0].path).times
        assert len(got) == len(times)
        assert all(abs((a - got[0]) - b) <= Fraction(1, 2000) for a, b in zip(got, times, strict=True))


def test_progress_rises_to_the_end(clip: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    spec = FileJob.model_validate({"input": {"path": "x"}, "outputs": [{"type": "mp4"}]})
    transcode(spec, LocalFile(clip, "x"), tmp_path, device=DEVICE, limits=Limits(), on_progress=seen.append)
    assert seen[-1].frames == 50
    assert seen[-1].fraction == pytest.approx(1, abs=0.05)
    assert [p.frames for p in seen] == sorted(p.frames for p in seen)


def test_cancelling_ends_a_run(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", seconds=20, size=(640, 360), options={"preset": "ultrafast"})
    cancelled = threading.Event()
    spec = FileJob.model_validate(
        {"input": {"path": "x"}, "outputs": [{"type": "mp4", "video": {"speed": "veryslow"}}]}
    )
    with pytest.raises(Cancelled):
        transcode(
            spec, LocalFile(path, "x"), tmp_path, device=DEVICE, limits=Limits(), cancelled=cancelled,
            on_progress=lambda progress: cancelled.set(),
        )  # fmt: skip


def test_a_file_cut_short_is_truncated(clip: Path, tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mkv", seconds=4)
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 6 // 10])
    with pytest.raises(Truncated) as caught:
        go(cut, tmp_path / "out", {"type": "mp4", "video": FAST})
    assert caught.value.code == "truncated"
    allowed = go(cut, tmp_path / "out2", {"type": "mp4", "video": FAST}, max_missing=1)
    assert "short_input" in [w.code for w in allowed.warnings]


NO_MEDIA = [b"", b"\0", b"<html><body>no</body></html>", b"#EXTM3U\nfile:///etc/passwd\n", bytes(range(256)) * 64]


@pytest.mark.parametrize("content", NO_MEDIA)
def test_what_is_no_media_is_bad_input(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.mp4"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        go(path, tmp_path / "out", {"type": "mp4"})
    assert caught.value.code in ("bad_input", "no_frames")
    assert not caught.value.retryable


def test_damage_inside_is_counted(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.ts", seconds=8, gop=25, size=(640, 360))
    data = bytearray(whole.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 2000] = bytes([0xAA]) * 2000
    path = tmp_path / "damaged.ts"
    path.write_bytes(data)
    result = go(path, tmp_path / "out", {"type": "mp4", "video": FAST})
    assert sum(w.count for w in result.warnings) >= 1


def test_an_option_that_the_encoder_ignores_is_refused() -> None:
    context: Any = av.CodecContext.create("mpeg4", "w")
    context.width, context.height, context.pix_fmt, context.time_base = 64, 64, "yuv420p", Fraction(1, 25)
    context.options = {"crf": "20"}
    with pytest.raises(EncoderRejected, match="crf=20"):
        open_encoder(context, "mpeg4")


def test_a_full_disk_is_disk_full(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "output.mp4").symlink_to("/dev/full")
    with pytest.raises(PipelineError) as caught:
        go(clip, tmp_path, {"type": "mp4", "video": FAST})
    assert isinstance(caught.value, DiskFull)


def test_sound_alone_becomes_an_audio_file_and_has_no_video(tmp_path: Path) -> None:
    path = make_audio(tmp_path / "in.flac")
    result = go(path, tmp_path / "out", {"type": "mp4"})
    assert [r.kind for r in result.outputs[0].renditions] == ["audio"]


def test_nothing_to_decode_is_no_frames(tmp_path: Path, clip: Path) -> None:
    data = clip.read_bytes()
    start = data.index(b"mdat") + 4
    path = tmp_path / "empty.mp4"
    path.write_bytes(data[:start] + bytes(len(data) - start))
    with pytest.raises((NoFrames, BadInput)):
        go(path, tmp_path / "out", {"type": "mp4"})
