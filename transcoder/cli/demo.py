"""`transcoder demo`: a made clip, transcoded, to see that everything works."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from transcoder.cli.choices import Choices
from transcoder.cli.options import job_for, load_settings

PRESET = "web-mp4"


def demo(
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where to put source.mkv and result.mp4; a new folder if not given.")
    ] = None,
    seconds: Annotated[int, typer.Option(min=1, max=600, help="Length of the clip.")] = 5,
) -> None:
    """Make a short test clip and transcode it: no server, no GPU, no files needed."""
    from pipelines.presets import load_presets
    from transcoder.cli.clip import make_clip
    from transcoder.cli.run import transcode_to
    from transcoder.cli.screen import describe, own_command, progress_view, say, show_warnings

    settings = load_settings()
    where = folder or Path(tempfile.mkdtemp(prefix="transcoder-demo-"))
    where.mkdir(parents=True, exist_ok=True)
    source, result_file = where / "source.mkv", where / "result.mp4"
    say(f"making {source}: {seconds} s of 1080p test picture with sound")
    make_clip(source, seconds=seconds)
    spec, _ = job_for(str(source), result_file, load_presets(settings.presets_dir)[PRESET], Choices())
    result = transcode_to(
        spec, str(source), result_file, settings=settings, force=True, view=progress_view(quiet=False)
    )
    show_warnings(result.warnings)
    print(f"{result_file}: {describe(result)}")
    following = (
        f"probe {result_file}",
        f"plan {source} small.webm --height 480",
        "presets",
        "run YOUR-FILE out.mp4",
        "serve",
    )
    print("\nNext:", *(f"  {own_command()} {words}" for words in following), sep="\n")
