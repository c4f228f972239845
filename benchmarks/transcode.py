"""1080p30 H.264 + AAC to 720p H.264 (veryfast, CRF 23) + AAC: `transcoder run` against `ffmpeg` with the same settings.

    python benchmarks/transcode.py --ffmpeg /usr/bin/ffmpeg

Both are timed as a user meets them, as whole processes, in alternating pairs; the medians and their ratio are printed.
With `--engine` the engine alone is timed, in this process, without start-up and command line. The encoder options
that ffmpeg gets are read from the plan, so both sides encode alike; scaler, track choice and faststart are named below.

A ratio is fair only when both use the same libraries: `ffmpeg -version` and the versions printed here tell. Run it on
an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

RATE, WIDTH, HEIGHT, SAMPLE_RATE = 30, 1920, 1080, 48_000
SETTINGS = (
    "--video-codec h264 --height 720 --width 1280 --speed veryfast --crf 23 --audio-codec aac --audio-bitrate 128k"
)
SCALER_FLAGS = "bicubic"

# detail that moves, edges, a slow zoom, and a sensor's noise: an encoder has to work as on camera footage
PICTURE = (
    f"mandelbrot=size={WIDTH}x{HEIGHT}:rate={RATE}:maxiter=120:end_pts=2400[zoom];"
    f"testsrc2=size={WIDTH}x{HEIGHT}:rate={RATE}[test];"
    "[zoom]format=yuv420p[z];[test]format=yuv420p[t];"
    "[z][t]blend=all_mode=average,noise=alls=5:allf=t,trim=duration={seconds}[out0];"
    f"anoisesrc=color=pink:sample_rate={SAMPLE_RATE}:amplitude=0.2:duration={{seconds}}[n];"
    f"sine=frequency=330:beep_factor=4:sample_rate={SAMPLE_RATE}:duration={{seconds}}[s];"
    "[n][s]amix=inputs=2[out1]"
)


@dataclass(frozen=True)
class Run:
    """Seconds on the clock, seconds of CPU time, and bytes written."""

    wall: float
    cpu: float
    size: int


def make_source(path: Path, seconds: int) -> None:
    """1080p30 H.264 at a camera-like bitrate with stereo AAC."""
    with av.open(PICTURE.format(seconds=seconds), format="lavfi") as made, av.open(path, "w") as container:
        options = {"preset": "veryfast", "crf": "20", "maxrate": "12000000", "bufsize": "24000000", "g": "60"}
        video = container.add_stream("libx264", rate=RATE, options=options)
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        video.codec_context.time_base = Fraction(1, RATE)
        audio = container.add_stream("aac", rate=SAMPLE_RATE, layout="stereo", bit_rate=160_000)
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=SAMPLE_RATE)
        for frame in made.decode():
            if isinstance(frame, VideoFrame):
                container.mux(video.encode(frame))
            elif isinstance(frame, AudioFrame):
                for samples in resampler.resample(frame):
                    container.mux(audio.encode(samples))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))


def transcoder_command(transcoder: list[str], source: Path, target: Path) -> list[str]:
    return [*transcoder, "run", str(source), str(target), *shlex.split(SETTINGS), "--force", "--quiet"]


def ffmpeg_command(ffmpeg: list[str], transcoder: list[str], source: Path, target: Path) -> list[str]:
    """ffmpeg's words for what the plan says."""
    plan = json.loads(
        subprocess.run(
            [*transcoder, "plan", str(source), "out.mp4", *shlex.split(SETTINGS), "--json"],
            check=True,
            capture_output=True,
        ).stdout
    )
    (output,) = plan["outputs"]
    video, audio = output["renditions"]
    words = [*ffmpeg, "-nostdin", "-y", "-v", "error", "-i", str(source), "-map", "0:v:0", "-map", "0:a:0"]
    words += ["-vf", f"scale={video['width']}:{video['height']}:flags={SCALER_FLAGS},format={video['pixel_format']}"]
    words += ["-c:v", video["encoder"]]
    for key, value in video["options"].items():
        words += [f"-{key}:v", value]
    words += ["-c:a", audio["encoder"], "-b:a", str(audio["bit_rate"])]
    return [*words, "-movflags", "+faststart", str(target)]


def timed(command: list[str], target: Path) -> Run:
    target.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu, target.stat().st_size)


def timed_engine(source: Path, folder: Path) -> Run:
    """The engine in this process, on the same job."""
    from pipelines.devices import software_device
    from pipelines.limits import Limits
    from pipelines.opening.input import LocalFile
    from pipelines.rate_control import Crf
    from pipelines.spec import AudioSpec, FileJob, Input, Mp4Output, Rung
    from pipelines.transcode import transcode

    rung = Rung(codec="h264", width=1280, height=720, speed="veryfast", rate_control=Crf(crf=23))
    output = Mp4Output(video=rung, audio=AudioSpec(codec="aac", bitrate=128_000))
    spec = FileJob(input=Input(path=str(source)), outputs=(output,))
    started, cpu = time.perf_counter(), time.process_time()
    result = transcode(spec, LocalFile(source, source.name), folder, device=software_device(1), limits=Limits())
    return Run(time.perf_counter() - started, time.process_time() - cpu, result.outputs[0].size)


def show(name: str, runs: list[Run], seconds: int) -> float:
    wall = statistics.median(run.wall for run in runs)
    walls = " ".join(f"{run.wall:.2f}" for run in runs)
    cpu = statistics.median(run.cpu for run in runs)
    print(
        f"{name:<11} median {wall:6.2f} s  ({seconds / wall:.2f}× real time, CPU {cpu:.1f} s, "
        f"{runs[-1].size / 1e6:.2f} MB)  runs: {walls}"
    )
    return wall


def show_versions() -> None:
    versions = {name: ".".join(map(str, version)) for name, version in sorted(av.library_versions.items())}
    print(f"PyAV {av.__version__}, FFmpeg {av.ffmpeg_version_info}, {versions}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ffmpeg", default=shutil.which("ffmpeg"), help="the ffmpeg command to compare with")
    parser.add_argument("--transcoder", default=f"{sys.executable} -m transcoder", help="the transcoder command")
    parser.add_argument("--seconds", type=int, default=50, help="length of the source")
    parser.add_argument("--pairs", type=int, default=5, help="how many runs of each")
    parser.add_argument("--engine", action="store_true", help="time the engine alone, in this process")
    parser.add_argument("--folder", type=Path, help="where the source is kept between runs; a temporary one otherwise")
    options = parser.parse_args()

    folder = options.folder or Path(tempfile.mkdtemp(prefix="transcoder-benchmark-"))
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"source-{options.seconds}s.mp4"
    try:
        if not source.exists():
            print(f"making {source}", flush=True)
            part = source.with_suffix(".part.mp4")
            make_source(part, options.seconds)
            part.replace(source)
        show_versions()
        print(f"{source.stat().st_size * 8 / options.seconds / 1e6:.1f} Mbit/s source, {os.cpu_count()} CPUs")
        measure(options, source, folder)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def measure(options: argparse.Namespace, source: Path, folder: Path) -> None:
    if options.engine:
        runs = []
        for number in range(options.pairs):
            target = folder / f"engine-{number}"
            target.mkdir()
            runs.append(timed_engine(source, target))
            shutil.rmtree(target)
        show("engine", runs, options.seconds)
        return
    if options.ffmpeg is None:
        sys.exit("no ffmpeg found: name one with --ffmpeg, or time the engine alone with --engine")
    transcoder, ffmpeg = shlex.split(options.transcoder), shlex.split(options.ffmpeg)
    ours = transcoder_command(transcoder, source, folder / "ours.mp4")
    theirs = ffmpeg_command(ffmpeg, transcoder, source, folder / "theirs.mp4")
    print(shlex.join(ours), shlex.join(theirs), sep="\n", flush=True)
    ours_runs, theirs_runs = [], []
    for number in range(options.pairs):
        # which goes first alternates: a warm cache or a throttled CPU favours neither
        for mine in (number % 2 == 0, number % 2 == 1):
            if mine:
                ours_runs.append(timed(ours, folder / "ours.mp4"))
            else:
                theirs_runs.append(timed(theirs, folder / "theirs.mp4"))
    ratio = show("transcoder", ours_runs, options.seconds) / show("ffmpeg", theirs_runs, options.seconds)
    pairs = " ".join(f"{a.wall / b.wall:.3f}" for a, b in zip(ours_runs, theirs_runs, strict=True))
    print(f"ratio {ratio:.3f} (transcoder / ffmpeg, of medians; by pair: {pairs})")


if __name__ == "__main__":
    main()
