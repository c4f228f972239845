"""Live HLS: processor time beside FFmpeg's for the same work, and how soon a segment can be played.

    python benchmarks/live.py [--pace TIMES] [SECONDS] [HEIGHT ...]
    python benchmarks/live.py --delays

Pictures of 1280×720 with a tone are sent to both at the same moments, at their pace; each HEIGHT is a rung. FFmpeg does
the same with the same settings of the encoders. Both run at once, so that a busy machine is the same for both, and
user and system time are counted from the third segment to the end, without what starting takes. Pictures that were
left out because the machine was too slow make the figure worthless; they are told, and on such a machine a pace below
1 × real time gives the processor time still, though not the delays. With `--delays` tiny pictures are sent to ours
alone, which makes segments of 1, of 2 and of 4 seconds. Needs `ffmpeg`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.asked.streams import StreamJob
from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.live.link import Connection
from pipelines.live.session import Stopping, run_stream

SEGMENT_SECONDS = 2
WARM_SEGMENTS = 3
STEP_SECONDS = 0.02
READY = ".ready"
DELAY_SECONDS, DELAY_SEGMENTS, DELAY_HEIGHTS = (1, 2, 4), 6, ("120", "90")
PICTURES, SMALL_PICTURES = (
    ("ffmpeg", "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", f"testsrc2=s={size}:r=25")
    for size in ("1280x720", "160x120")
)
CLIP = (
    *("-f", "lavfi", "-i", "sine=r=48000", "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency"),
    *("-g", "50", "-pix_fmt", "yuv420p", "-c:a", "aac", "-ac", "2", "-muxrate", "8M", "-f", "mpegts"),
)
X264 = (
    *("-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-bf", "0", "-sc_threshold", "0", "-rc-lookahead", "5"),
    *("-x264-params", "sync-lookahead=0", "-g", str(25 * SEGMENT_SECONDS), "-c:a", "aac", "-b:a", "160k"),
)


class Standard:
    """A link to standard input; `ready` is a file that says that it is read."""

    def __init__(self, ready: Path) -> None:
        self._ready = ready

    def connect(self, name: str, cancelled: threading.Event) -> Connection:
        self._ready.touch()
        return Connection(os.dup(0), format="mpegts")


def ours(folder: Path, heights: list[int], segment_seconds: int) -> None:
    """In a process of its own, so that its processor time can be told."""
    rungs = [{"height": height, "rate_control": {"mode": "crf", "crf": 23}} for height in heights]
    output = {"type": "hls", "segment_seconds": segment_seconds, "window_seconds": 600, "video": rungs}
    asked = {"url": "udp://192.0.2.1:5000", "reconnect": {"on_end": "complete"}}
    job = StreamJob.model_validate({"kind": "stream", "input": asked, "outputs": [output], "force": True})
    result = run_stream(job, folder, software_device(1), Standard(folder / READY), limits=Limits(), stopping=Stopping())
    print("pictures left out:", sum(track.dropped for track in result.stats.tracks), dict(result.stats.warnings))


def ffmpegs(heights: list[int]) -> list[str]:
    command = ["ffmpeg", "-nostdin", "-loglevel", "error", "-i", "pipe:0"]
    for number, height in enumerate(heights):
        command += ["-map", "0:v", f"-filter:v:{number}", f"scale=-2:{height}:flags=bicubic"]
    groups = " ".join(f"v:{number},agroup:a" for number in range(len(heights))) + " a:0,agroup:a"
    command += ["-map", "0:a", *X264, "-f", "hls", "-hls_time", str(SEGMENT_SECONDS), "-hls_list_size", "300"]
    command += ["-hls_segment_type", "fmp4", "-var_stream_map", groups, "-master_pl_name", "index.m3u8", "v%v.m3u8"]
    return command


@dataclass
class Runner:
    """One of the two, with what was seen of it."""

    folder: Path
    process: subprocess.Popen[bytes]
    starting: float = 0.0
    """Processor seconds before what is measured, and altogether."""
    altogether: float = 0.0
    delays: list[float] = field(default_factory=list)
    """Seconds from a segment's first picture until the playlist names it."""

    def feed(self, clip: bytes, seconds: float, began: float) -> None:
        assert self.process.stdin is not None
        sent = 0
        with self.process.stdin as pipe:
            while sent < len(clip):
                due = int(len(clip) * min(1.0, (time.monotonic() - began) / seconds))
                if due > sent:
                    sent += os.write(pipe.fileno(), clip[sent:due])
                time.sleep(STEP_SECONDS)

    def look(self, began: float) -> None:
        """Takes down when segments appear."""
        start, listed = 0.0, 0
        while not self.altogether:
            time.sleep(STEP_SECONDS)
            playlist = self.folder / "v0.m3u8"
            if not playlist.exists():
                continue
            lengths = [float(each) for each in re.findall(r"#EXTINF:([0-9.]+)", playlist.read_text())]
            for length in lengths[listed:]:
                self.delays.append(time.monotonic() - began - start)
                start += length
            if listed < WARM_SEGMENTS <= len(lengths):
                fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
                self.starting = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            listed = len(lengths)

    def end(self) -> None:
        _, status, usage = os.wait4(self.process.pid, 0)
        assert status == 0, "it failed"
        self.altogether = usage.ru_utime + usage.ru_stime

    @property
    def spent(self) -> float:
        return self.altogether - self.starting


def run(commands: dict[str, tuple[Path, list[str]]], clip: bytes, seconds: float) -> dict[str, Runner]:
    runners = {
        name: Runner(folder, subprocess.Popen(command, stdin=subprocess.PIPE, cwd=folder))
        for name, (folder, command) in commands.items()
    }
    time.sleep(2)  # FFmpeg has loaded what it needs
    while not (commands["ours"][0] / READY).exists():
        time.sleep(STEP_SECONDS)
    began = time.monotonic()
    threads = [threading.Thread(target=each.feed, args=(clip, seconds, began)) for each in runners.values()]
    threads += [threading.Thread(target=each.look, args=(began,)) for each in runners.values()]
    threads += [threading.Thread(target=each.end) for each in runners.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return runners


def command_of_ours(folder: Path, segment_seconds: int, heights: Sequence[str]) -> list[str]:
    told = [f"{name}={value}" for name, value in (("_LIVE_FOLDER", folder), ("_LIVE_SEGMENT", segment_seconds))]
    return ["env", *told, sys.executable, str(Path(__file__).resolve()), *heights]


def made_clip(pictures: Sequence[str], seconds: float) -> bytes:
    return subprocess.run([*pictures, *CLIP, "-t", str(seconds), "pipe:1"], capture_output=True, check=True).stdout


def tell_delays(name: str, runner: Runner, segment_seconds: int) -> None:
    worst, usual = max(runner.delays), sorted(runner.delays)[len(runner.delays) // 2]
    told = f"{usual:.2f} s after their first picture, at most {worst:.2f}"
    print(f"{name}: segments of {segment_seconds} s are listed {told}", flush=True)


def delays() -> None:
    """Of streams of their own, one after the other."""
    for segment_seconds in DELAY_SECONDS:
        seconds = float(segment_seconds * DELAY_SEGMENTS)
        clip = made_clip(SMALL_PICTURES, seconds)
        with tempfile.TemporaryDirectory() as name:
            command = command_of_ours(Path(name), segment_seconds, DELAY_HEIGHTS)
            found = run({"ours": (Path(name), command)}, clip, seconds)
        tell_delays("ours", found["ours"], segment_seconds)


def main() -> None:
    if folder := os.environ.get("_LIVE_FOLDER"):
        ours(Path(folder), [int(each) for each in sys.argv[1:]], int(os.environ["_LIVE_SEGMENT"]))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--pace", type=float, default=1.0)
    parser.add_argument("--delays", action="store_true")
    parser.add_argument("seconds", type=int, nargs="?", default=30)
    parser.add_argument("heights", nargs="*", default=["720", "360"])
    asked = parser.parse_args()
    if asked.delays:
        delays()
        return
    seconds, heights = asked.seconds, asked.heights
    clip = made_clip(PICTURES, seconds)
    with tempfile.TemporaryDirectory() as name:
        mine, theirs = Path(name, "mine"), Path(name, "theirs")
        mine.mkdir()
        theirs.mkdir()
        commands = {
            "ours": (mine, command_of_ours(mine, SEGMENT_SECONDS, heights)),
            "FFmpeg": (theirs, ffmpegs([int(each) for each in heights])),
        }
        found = run(commands, clip, seconds / asked.pace)
    told = ", ".join(f"{name} {runner.spent:.2f} s" for name, runner in found.items())
    print(f"processor time: {told}: {found['ours'].spent / found['FFmpeg'].spent:.3f} times")
    for name, runner in found.items():
        tell_delays(name, runner, SEGMENT_SECONDS)


if __name__ == "__main__":
    main()
