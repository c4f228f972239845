"""Live HLS: processor time beside FFmpeg's for the same work, and how soon a segment can be played.

    python benchmarks/live.py [SECONDS] [HEIGHT ...]

Pictures of 1280×720 with a tone are sent in datagrams on this machine; each HEIGHT is a rung. FFmpeg does the same
with the same encoder settings. Needs `ffmpeg`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.live.link import Connection
from pipelines.live.session import Stopping, run_stream
from pipelines.stream_spec import StreamJob

SEGMENT_SECONDS = 2
SOURCE = (
    *("ffmpeg", "-nostdin", "-loglevel", "error", "-re", "-f", "lavfi", "-i", "testsrc2=s=1280x720:r=25"),
    *("-f", "lavfi", "-i", "sine=r=48000", "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency"),
    *("-g", "50", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2", "-f", "mpegts"),
)


class Pipe:
    """A link to one source."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def connect(self, name: str, cancelled: threading.Event) -> Connection:
        source = subprocess.Popen([*SOURCE, "-t", str(self._seconds), "pipe:1"], stdout=subprocess.PIPE)
        assert source.stdout is not None
        return Connection(os.dup(source.stdout.fileno()), format="mpegts")


def ours(folder: Path, seconds: int, heights: list[int]) -> None:
    """In a process of its own, so that its processor time can be told."""
    rungs = [{"height": height, "rate_control": {"mode": "crf", "crf": 23}} for height in heights]
    output = {"type": "hls", "segment_seconds": SEGMENT_SECONDS, "window_seconds": 60, "video": rungs}
    asked = {"url": "udp://192.0.2.1:5000", "reconnect": {"on_end": "complete"}}
    job = StreamJob.model_validate({"kind": "stream", "input": asked, "outputs": [output], "force": True})
    began = time.process_time()
    run_stream(job, folder, software_device(1), Pipe(seconds), limits=Limits(), stopping=Stopping())
    print(time.process_time() - began)


def ffmpegs(folder: Path, seconds: int, heights: list[int]) -> float:
    command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-i", "pipe:0"]
    for number in range(len(heights)):
        command += ["-map", "0:v"]
        command += [f"-filter:v:{number}", f"scale=-2:{heights[number]}:flags=bicubic"]
    command += ["-map", "0:a", "-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-bf", "0", "-sc_threshold", "0"]
    command += [
        "-rc-lookahead",
        "5",
        "-x264-params",
        "sync-lookahead=0",
        "-g",
        str(25 * SEGMENT_SECONDS),
        "-c:a",
        "aac",
    ]
    groups = " ".join(f"v:{number},agroup:a" for number in range(len(heights))) + " a:0,agroup:a"
    command += [
        "-c:a",
        "aac",
        "-f",
        "hls",
        "-hls_time",
        str(SEGMENT_SECONDS),
        "-hls_segment_type",
        "fmp4",
        "-var_stream_map",
        groups,
    ]
    command += ["-master_pl_name", "index.m3u8", str(folder / "s%v.m3u8")]
    source = subprocess.Popen([*SOURCE, "-t", str(seconds), "pipe:1"], stdout=subprocess.PIPE)
    process = subprocess.Popen(command, stdin=source.stdout, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    source.wait()
    assert status == 0, "ffmpeg failed"
    return usage.ru_utime + usage.ru_stime


def delays(folder: Path) -> list[float]:
    """Seconds from a segment's first picture until it was there; of those that a playlist gives the time of."""
    text = (folder / "v0.m3u8").read_text()
    start: float | None = None
    found = []
    lines = text.splitlines()
    for line, following in pairwise(lines):
        if told := re.match(r"#EXT-X-PROGRAM-DATE-TIME:(.*)", line):
            start = datetime.fromisoformat(told[1]).timestamp()
        elif start is not None and (length := re.match(r"#EXTINF:([0-9.]+)", line)):
            found.append((folder / following).stat().st_mtime - start)
            start += float(length[1])
    return found[1:-1]


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    heights = [int(each) for each in sys.argv[2:]] or [720, 360]
    if os.environ.get("_LIVE_FOLDER"):
        ours(Path(os.environ["_LIVE_FOLDER"]), seconds, heights)
        return
    with tempfile.TemporaryDirectory() as name:
        mine, theirs = Path(name, "mine"), Path(name, "theirs")
        mine.mkdir()
        theirs.mkdir()
        environment = {**os.environ, "_LIVE_FOLDER": str(mine)}
        told = subprocess.run([sys.executable, *sys.argv], env=environment, capture_output=True, text=True, check=True)
        own, other = float(told.stdout.split()[-1]), ffmpegs(theirs, seconds, heights)
        waits = delays(mine)
    print(f"processor time for {seconds} s: {own:.1f} s, FFmpeg {other:.1f} s: {own / other:.2f} times")
    print(f"segments of {SEGMENT_SECONDS} s are there {max(waits):.2f} s after their first picture at most")


if __name__ == "__main__":
    main()
