"""Pictures of sizes at which an encoder corrupts memory: each in a process of its own, whose heap is checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.encoders import NARROW_X265, size_options
from tests.measure import decode_video
from tests.media import make_video

CHECKER = "libc_malloc_debug.so.0"
"""glibc's own: it sees a byte that was written past the end of a block when the block is freed."""
SCRIPT = """
import sys
from pathlib import Path
from tests.jobs import run_job
source, folder, pixel_format = sys.argv[1:]
rung = {"codec": "hevc", "speed": "medium", "pixel_format": pixel_format}
run_job(Path(source), Path(folder), {"type": "mkv", "video": rung})
"""


@pytest.mark.parametrize("size", [(48, 64), pytest.param((16, 48), marks=pytest.mark.slow)])
@pytest.mark.parametrize("pixel_format", ["yuv420p", pytest.param("yuv420p10le", marks=pytest.mark.slow)])
def test_hevc_of_narrow_pictures_leaves_the_heap_whole(
    tmp_path: Path, size: tuple[int, int], pixel_format: str
) -> None:
    path = make_video(tmp_path / "clip.mkv", size=size, seconds=1, audio=())
    environment = {**os.environ, "LD_PRELOAD": CHECKER, "GLIBC_TUNABLES": "glibc.malloc.check=3"}
    child = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "out"), pixel_format],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    made = decode_video(tmp_path / "out" / "output.mkv")
    assert len(made.frames) == 25
    assert (made.frames[0].width, made.frames[0].height) == size


def test_only_narrow_pictures_of_x265_go_without_the_tree() -> None:
    assert size_options("libx265", NARROW_X265) == {"x265-params": "cutree=0"}
    assert not size_options("libx265", NARROW_X265 + 2)
    assert not size_options("libx264", 16)
