"""`transcoder run` and its companions on real files, as whole processes where signals or exit codes matter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import av
import pytest

from tests.measure import decode_audio, decode_video
from tests.media import make_video
from transcoder.__main__ import main

COMMAND = [sys.executable, "-m", "transcoder"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "clip.mkv", size=(320, 240), rate=25, seconds=2)


@pytest.fixture(scope="module")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("media") / "long.mkv", size=(1280, 720), rate=30, seconds=10)


def transcoder(*words: str | Path) -> int:
    """Runs a command line in this process and returns its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A plain web server of a folder on a loopback port."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_file_becomes_what_its_name_says(clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    assert transcoder("run", clip, out, "--height", "120", "--speed", "ultrafast") == 0
    video = decode_video(out)
    assert (video.frames[0].width, video.frames[0].height) == (160, 120)
    assert len(video.frames) == 50
    assert names(tmp_path) == ["out.mp4"]


def test_sound_file_has_the_sound(clip: Path, tmp_path: Path) -> None:
    assert transcoder("run", clip, tmp_path / "out.mp3") == 0
    assert decode_audio(tmp_path / "out.mp3").samples.size > 0


def test_part_is_taken(clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    assert transcoder("run", clip, out, "--start", "0.4", "--end", "0:01.4", "--speed", "ultrafast") == 0
    assert len(decode_video(out).frames) == 25


def test_files_of_subtitles_become_tracks_in_the_language_of_their_names(clip: Path, tmp_path: Path) -> None:
    for name in ("film.de.srt", "film.srt"):
        (tmp_path / name).write_text("1\n00:00:00,200 --> 00:00:00,800\nGrüße\n", encoding="cp1252")
    out = tmp_path / "out.mkv"
    texts = ("--add-subtitles", tmp_path / "film.de.srt", "--add-subtitles", tmp_path / "film.srt")
    assert transcoder("run", clip, out, "--height", "64", *texts) == 0
    with av.open(str(out)) as made:
        assert [track.metadata.get("language") for track in made.streams.subtitles] == ["de", None]
    (tmp_path / "film.srt").write_text("no subtitles")
    assert transcoder("run", clip, tmp_path / "bad.mkv", *texts) == 3


@pytest.mark.slow
def test_a_plan_has_the_tracks_of_files_of_subtitles(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "film.srt").write_text("1\n00:00:00,200 --> 00:00:00,800\nx\n")
    spec = {"input": {"path": "x", "subtitles": [{"path": str(tmp_path / "film.srt")}]}, "preset": "remux-mkv"}
    (tmp_path / "job.json").write_text(json.dumps(spec))
    assert transcoder("plan", clip, "--spec", tmp_path / "job.json") == 0
    assert "subtitles file 1" in capsys.readouterr().out


def test_result_is_printed_as_json_alone(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.mkv"
    assert transcoder("run", clip, out, "--copy", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["path"] == str(out)
    assert result["outputs"][0]["size"] == out.stat().st_size


def test_existing_file_is_left_alone(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.mp4"
    out.write_text("mine")
    assert transcoder("run", clip, out) == 2
    assert out.read_text() == "mine"
    assert "error [output_exists]:" in capsys.readouterr().err


def test_force_replaces_it(clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mkv"
    out.write_text("mine")
    assert transcoder("run", clip, out, "--copy", "--force") == 0
    assert len(decode_video(out).frames) == 50


def test_failed_run_leaves_the_old_file(tmp_path: Path) -> None:
    broken, out = tmp_path / "broken.mkv", tmp_path / "out.mp4"
    broken.write_bytes(b"no media at all" * 50)
    out.write_text("mine")
    assert transcoder("run", broken, out, "--force") == 3
    assert out.read_text() == "mine"
    assert names(tmp_path) == ["broken.mkv", "out.mp4"]


def test_input_is_never_its_own_output(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = clip.read_bytes()
    assert transcoder("run", clip, clip, "--force") == 2
    assert clip.read_bytes() == before
    assert "the input itself" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("{tmp}/nothing.mkv", "{tmp}/out.mp4"), 3, "file_error"),
        (("{tmp}", "{tmp}/out.mp4"), 3, "file_error"),
        (("{clip}", "{tmp}/out.avi"), 2, "unsupported"),
        (("{clip}", "{tmp}/nowhere/out.mp4"), 2, "file_error"),
        (("{clip}", "{tmp}/out.mp4", "--preset", "nothing"), 2, "unknown_preset"),
        (("{clip}", "{tmp}/out.mp4", "--preset", "{tmp}/nothing.toml"), 2, "bad_preset"),
        (("{clip}", "{tmp}/out.webm", "--audio-codec", "mp3"), 2, "invalid_request"),
        (("{clip}", "{tmp}/out.mp4", "--height", "1"), 2, "invalid_request"),
        (("{clip}", "{tmp}/out.mp4", "--start", "2", "--end", "1"), 2, "invalid_request"),
        (("{clip}", "{tmp}/out.mp4", "--crf", "60", "--video-codec", "h264"), 2, "unsupported"),
        (("{clip}", "{tmp}/out.mp4", "--start", "1:00:00"), 2, "unsupported"),
    ],
)
def test_error_is_a_line_with_a_code(
    words: tuple[str, ...], code: int, error: str, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcoder("run", *(word.format(tmp=tmp_path, clip=clip) for word in words)) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith(f"error [{error}]: ")
    assert names(tmp_path) == []


def test_bad_environment_is_named(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRANSCODER_MAX_STREAMS", "many")
    assert transcoder("run", clip, tmp_path / "out.mp4") == 2
    assert "max_streams" in capsys.readouterr().err


def test_limits_hold_here_too(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSCODER_MAX_PIXELS", "1000")
    assert transcoder("run", clip, tmp_path / "out.mp4") == 3
    assert names(tmp_path) == []


def test_url_on_this_machine_is_read(clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mkv"
    with serving(clip.parent) as address:
        assert transcoder("run", f"{address}/{clip.name}", out, "--copy") == 0
        assert transcoder("run", f"{address}/nothing.mkv", tmp_path / "other.mkv", "--copy") == 3
    assert len(decode_video(out).frames) == 50
    assert names(tmp_path) == ["out.mkv"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_nothing(number: signal.Signals, long_clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mp4"
    words = [*COMMAND, "run", str(long_clip), str(out), "--video-codec", "hevc", "--speed", "veryslow"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "transcoding\n"
        process.send_signal(number)
        errors = process.stderr.read()
        assert process.wait(30) == 130
    assert "error [cancelled]:" in errors
    assert names(tmp_path) == []


@pytest.mark.slow
def test_pipes_get_no_control_characters(clip: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "run", str(clip), str(tmp_path / "out.mp4"), "--speed", "ultrafast"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"FORCE_COLOR": "", "NO_COLOR": "1"},
    )
    assert done.stdout == ""
    assert "\x1b" not in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith(str(tmp_path / "out.mp4"))


def test_probe_tells_what_a_file_is(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert transcoder("probe", clip) == 0
    shown = capsys.readouterr().out
    assert "320×240" in shown
    assert "25 fps" in shown
    assert transcoder("probe", clip, "--json") == 0
    assert json.loads(capsys.readouterr().out)["video"][0]["width"] == 320


@pytest.mark.slow
def test_plan_tells_what_and_why_and_does_nothing(
    clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcoder("plan", clip, tmp_path / "out.mp4", "--height", "120") == 0
    shown = capsys.readouterr().out
    assert "160×120" in shown
    assert "libx264" in shown
    assert "scaled to 160×120" in shown
    assert names(tmp_path) == []


@pytest.mark.slow
def test_plan_takes_a_preset_or_a_spec(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert transcoder("plan", clip, "--preset", "vp9-1080p", "--json") == 0
    by_preset = json.loads(capsys.readouterr().out)
    assert by_preset["outputs"][0]["renditions"][0]["encoder"] == "libvpx-vp9"
    spec = tmp_path / "job.json"
    spec.write_text(json.dumps({"input": {"path": "/elsewhere"}, "preset": "vp9-1080p"}))
    assert transcoder("plan", clip, "--spec", spec, "--json") == 0
    by_spec = json.loads(capsys.readouterr().out)
    # speeds are measured anew each time
    assert by_spec.pop("estimate")["size_bytes"] == by_preset.pop("estimate")["size_bytes"]
    assert by_spec == by_preset
    assert transcoder("plan", clip) == 2


def test_presets_are_listed_and_printed_for_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert transcoder("presets") == 0
    assert "web-mp4" in capsys.readouterr().out
    assert transcoder("presets", "web-mp4") == 0
    own = tmp_path / "own.toml"
    own.write_text(capsys.readouterr().out)
    assert transcoder("presets", "web-mp4", "--json") == 0
    shipped = json.loads(capsys.readouterr().out)

    from pipelines.presets import load_preset_file

    assert load_preset_file(own).model_dump(mode="json") == shipped | {"name": "own"}


def test_presets_of_ones_own_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.toml").write_text('description = "Ours."\n[[outputs]]\ntype = "mkv"\n')
    monkeypatch.setenv("TRANSCODER_PRESETS_DIR", str(tmp_path))
    assert transcoder("presets") == 0
    assert "Ours." in capsys.readouterr().out


def test_demo_makes_a_clip_and_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert transcoder("demo", "--folder", tmp_path / "demo", "--seconds", "1") == 0
    assert str(tmp_path / "demo" / "result.mp4") in capsys.readouterr().out
    assert len(decode_video(tmp_path / "demo" / "result.mp4").frames) == 30


def test_serve_refuses_to_listen_for_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert transcoder("serve", "--host", "0.0.0.0") == 2
    assert "error [not_loopback]:" in capsys.readouterr().err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert transcoder("--version") == 0
    assert capsys.readouterr().out.startswith("transcoder 0.")
