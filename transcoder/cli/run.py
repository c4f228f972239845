"""`transcoder run`: one file in, one file out, in this process."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transcoder.cli.choices import Choices, takes_choices
from transcoder.cli.failures import CommandError, values_from
from transcoder.cli.options import (
    DeviceOption,
    JsonOption,
    PresetOption,
    SubtitlesOption,
    is_url,
    job_for,
    load_settings,
    read_preset,
    subtitles_of,
)

if TYPE_CHECKING:
    from pipelines.result import Result
    from pipelines.spec import FileJob
    from transcoder.cli.screen import ProgressView
    from transcoder.settings import Settings


@takes_choices
def run(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file, or an http(s) URL.")],
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Its extension picks the format: .mp4 .mkv .mp3 .m3u8 (a folder) .jpg .gif …",
        ),
    ],
    *,
    choices: Choices,
    preset: PresetOption = None,
    device: DeviceOption = "auto",
    texts: SubtitlesOption = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace OUT if it exists.")] = False,
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Write a receipt there: JSON on what was done and measured."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Transcode one file, here and now; no server needed.

    OUT appears when it is whole, or not at all. Exit codes: 0 done, 1 failed, 2 can't be done as asked,
    3 the input can't be used, 130 interrupted.
    """
    from transcoder.cli.other_targets import folder_of
    from transcoder.cli.screen import describe, print_json, progress_view, say, show_warnings

    settings = load_settings()
    spec, notes = job_for(source, out, read_preset(preset, settings), choices, device)
    with values_from("--add-subtitles"):
        named = subtitles_of(texts or ())
    spec = spec.model_copy(update={"input": spec.input.model_copy(update={"subtitles": named})})
    made = folder_of(out)
    check_places(source, out if made is None else made, force=force, is_folder=made is not None)
    if not quiet:
        for note in notes:
            say(f"note: {note}")
    if receipt is not None and receipt.resolve() == out.resolve():
        raise CommandError("output_exists", f"{receipt} is the output itself")
    result = transcode_to(
        spec, source, out, settings=settings, force=force, view=progress_view(quiet=quiet), receipt=receipt
    )
    shown = out if made is None else made / Path(result.outputs[0].path).name
    if as_json:
        print_json({**result.model_dump(mode="json", exclude={"report"}), "path": str(shown.absolute())})
    if not quiet:
        show_warnings(result.warnings)
        say(f"{shown}: {describe(result)}")


def transcode_to(
    spec: FileJob,
    source: str,
    out: Path,
    *,
    settings: Settings,
    force: bool,
    view: ProgressView,
    receipt: Path | None = None,
) -> Result:
    """Runs the one output of `spec` into `out`, which appears whole or not at all."""
    from transcoder.cli.local import Engine, interruptible, publish, publish_folder, scratch_beside
    from transcoder.cli.other_targets import folder_of

    engine = Engine(settings, view)
    with scratch_beside(out) as scratch, view:
        folder = scratch / "out"
        folder.mkdir()

        def work(stop: threading.Event) -> Result:
            file = engine.open(source, scratch, stop)
            result = engine.transcode(spec, file, folder, stop)
            if receipt is not None:
                from transcoder.cli.receipt import write_local_receipt

                write_local_receipt(engine.way, result, file, folder, out, receipt)
            made = folder_of(out)
            written = folder / result.outputs[0].path
            if made is None:
                publish(written, out, force=force)
            else:
                publish_folder(written.parent, made, force=force)
            return result

        return interruptible(work, on_abandon=lambda: shutil.rmtree(scratch, ignore_errors=True))


def check_places(source: str, out: Path, *, force: bool, is_folder: bool = False) -> None:
    """CommandError where IN can't be read or OUT may not be written. `is_folder`: OUT is the folder that is made."""
    from transcoder.cli.local import check_file, exists

    if not is_url(source):
        check_file(Path(source))
    if is_folder:
        _check_folder(source, out, force=force)
        return
    if out.is_dir():
        raise CommandError("output_exists", f"{out} is a folder; give the name of a file in it")
    if not out.exists():
        return
    if os.path.exists(source) and os.path.samefile(source, out):
        raise CommandError("output_exists", f"{out} is the input itself")
    if not force:
        raise exists(out)


def _check_folder(source: str, folder: Path, *, force: bool) -> None:
    from transcoder.cli.local import exists

    if not folder.exists():
        return
    if not folder.is_dir():
        raise CommandError("output_exists", f"{folder} is a file, and what is made is a folder of that name")
    if os.path.exists(source) and Path(source).resolve().is_relative_to(folder.resolve()):
        raise CommandError("output_exists", f"{folder} holds the input itself")
    if not force:
        raise exists(folder)
