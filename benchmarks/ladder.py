"""1080p30 to a ladder of four H.264 rungs (HLS) and thumbnails: the engine against one `ffmpeg` with `split`.

    python -m benchmarks.ladder --ffmpeg /usr/bin/ffmpeg

Both decode once. Ours runs in this process with the encoders' options of the plan; `ffmpeg` gets the same options, the
same sizes, four HLS streams in fragmented MP4 with AAC, and JPEGs of 320 pixels' width every second. Pairs alternate;
the medians of wall clock and of CPU time, and their ratios, are printed. What the start of a process costs is in
ffmpeg's time and not in ours: some tens of milliseconds. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.transcode import SCALER_FLAGS, make_source, show_versions
from pipelines.asked.pictures import Interval
from pipelines.asked.rungs import AudioSpec, Rung
from pipelines.devices import software_device
from pipelines.limits import Limits
from pipelines.opening.input import LocalFile
from pipelines.plan import plan
from pipelines.probe import probe
from pipelines.rate_control import Crf
from pipelines.rendition import AudioRendition, OutputPlan, VideoRendition
from pipelines.spec import FileJob, HlsLadder, Input, ThumbnailsOutput
from pipelines.transcode import transcode

HEIGHTS = (1080, 720, 480, 360)
SEGMENT_SECONDS = 4
EVERY_SECONDS = 1
STILL_WIDTH = 320
DEVICE = software_device(1)


@dataclass(frozen=True)
class Run:
    wall: float
    cpu: float
    size: int


def job(source: Path) -> FileJob:
    rungs = tuple(Rung(codec="h264", height=height, speed="veryfast", rate_control=Crf(crf=23)) for height in HEIGHTS)
    ladder = HlsLadder(
        name="ladder", video=rungs, audio=AudioSpec(bitrate=128_000), segment_seconds=SEGMENT_SECONDS, iframes=False
    )
    stills = ThumbnailsOutput(name="thumbs", width=STILL_WIDTH, pick=Interval(seconds=EVERY_SECONDS))
    return FileJob(input=Input(path=source.name), outputs=(ladder, stills))


def ffmpeg_command(ffmpeg: str, source: Path, folder: Path, ladder: OutputPlan) -> list[str]:
    """ffmpeg's words for what the plan says."""
    rungs = [each for each in ladder.renditions if isinstance(each, VideoRendition)]
    sound = next(each for each in ladder.renditions if isinstance(each, AudioRendition))
    parts = [f"[0:v]split={len(rungs) + 1}" + "".join(f"[s{n}]" for n in range(len(rungs) + 1))]
    for number, rung in enumerate(rungs):
        scale = f"scale={rung.width}:{rung.height}:flags={SCALER_FLAGS}"
        parts.append(f"[s{number}]{scale},format={rung.pixel_format}[v{number}]")
    parts.append(f"[s{len(rungs)}]fps=1/{EVERY_SECONDS},scale={STILL_WIDTH}:-2,format=yuvj420p[t]")
    words = [ffmpeg, "-nostdin", "-y", "-v", "error", "-i", str(source), "-filter_complex", ";".join(parts)]
    for number, rung in enumerate(rungs):
        words += ["-map", f"[v{number}]", f"-c:v:{number}", rung.encoder]
        for key, value in rung.options.items():
            words += [f"-{key}:v:{number}", value]
        words += [f"-force_key_frames:v:{number}", f"expr:gte(t,n_forced*{SEGMENT_SECONDS})"]
    words += ["-map", "0:a:0", "-c:a", sound.encoder, "-b:a", str(sound.bit_rate)]
    streams = " ".join([*(f"v:{number},agroup:sound" for number in range(len(rungs))), "a:0,agroup:sound"])
    words += ["-f", "hls", "-hls_time", str(SEGMENT_SECONDS), "-hls_playlist_type", "vod", "-hls_segment_type", "fmp4"]
    words += ["-master_pl_name", "index.m3u8", "-var_stream_map", streams, str(folder / "%v" / "index.m3u8")]
    return [*words, "-map", "[t]", "-q:v", "5", str(folder / "%05d.jpg")]


def timed_ours(source: Path, folder: Path) -> Run:
    started, cpu = time.perf_counter(), time.process_time()
    transcode(job(source), LocalFile(source, source.name), folder, device=DEVICE, limits=Limits())
    return Run(time.perf_counter() - started, time.process_time() - cpu, _size(folder))


def timed_ffmpeg(command: list[str], folder: Path) -> Run:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, _size(folder))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def show(name: str, runs: list[Run]) -> tuple[float, float]:
    wall, cpu = statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs)
    print(f"{name:<7} median {wall:6.2f} s, CPU {cpu:6.2f} s, {runs[-1].size / 1e6:.2f} MB")
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ffmpeg", default=shutil.which("ffmpeg"), help="the ffmpeg command to compare with")
    parser.add_argument("--seconds", type=int, default=20, help="length of the source")
    parser.add_argument("--pairs", type=int, default=3, help="how many runs of each")
    options = parser.parse_args()
    if options.ffmpeg is None:
        sys.exit("no ffmpeg found: name one with --ffmpeg")
    with tempfile.TemporaryDirectory(prefix="transcoder-benchmark-") as scratch:
        root = Path(scratch)
        source = root / "source.mp4"
        make_source(source, options.seconds)
        show_versions()
        ladder = plan(job(source), probe(LocalFile(source, source.name), Limits()), DEVICE).outputs[0]
        ours: list[Run] = []
        theirs: list[Run] = []
        for number in range(options.pairs):
            for mine in (number % 2 == 0, number % 2 == 1):
                folder = root / f"{'ours' if mine else 'theirs'}-{number}"
                folder.mkdir()
                if mine:
                    ours.append(timed_ours(source, folder))
                else:
                    theirs.append(timed_ffmpeg(ffmpeg_command(options.ffmpeg, source, folder, ladder), folder))
        (wall, cpu), (their_wall, their_cpu) = show("engine", ours), show("ffmpeg", theirs)
        print(f"ratio of wall clock {wall / their_wall:.3f}, of CPU {cpu / their_cpu:.3f} (engine / ffmpeg)")


if __name__ == "__main__":
    main()
