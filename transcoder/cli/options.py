"""From what was typed to a job, for the commands that share it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transcoder.cli import completion
from transcoder.cli.choices import Choices
from transcoder.cli.failures import CommandError, values_from

if TYPE_CHECKING:
    from pipelines.asked.subtitle_files import SubtitleFile
    from pipelines.presets import Preset
    from pipelines.spec import DevicePolicy, FileJob, Input
    from transcoder.settings import Settings

PresetOption = Annotated[
    str | None,
    typer.Option(
        "--preset",
        "-p",
        help="A preset's name (see `transcoder presets`), or a .toml file.",
        autocompletion=completion.presets,
    ),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, hardware, software, or a device's id (see `transcoder devices`).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


SubtitlesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--add-subtitles", metavar="FILE", help="A text file that becomes a track: film.de.srt. May be repeated."
    ),
]
LANGUAGE = re.compile(r"[a-zA-Z]{2,3}(-[a-zA-Z]{2,4})?")


def is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def load_settings() -> Settings:
    """Settings from the environment; a bad value is named."""
    with values_from("environment (TRANSCODER_*)"):
        from transcoder.settings import Settings

        return Settings()


def read_preset(name: str | None, settings: Settings) -> Preset | None:
    """The preset of a name, or of a file where the value looks like one."""
    from pipelines.presets import find_preset, load_preset_file, load_presets

    if name is None:
        return None
    if name.endswith(".toml") or "/" in name:
        return load_preset_file(Path(name))
    return find_preset(name, load_presets(settings.presets_dir))


def read_spec(path: Path) -> FileJob:
    """A job as JSON, the body that POST /v1/jobs takes."""
    from pipelines.spec import FileJob

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError("invalid_request", f"{path}: it is not UTF-8") from None
    with values_from(str(path)):
        return FileJob.model_validate_json(text)


def input_of(source: str, start: float | None = None, end: float | None = None) -> Input:
    from pipelines.spec import Clip, Input

    clip = None if start is None and end is None else Clip(start=start or 0.0, end=end)
    return Input(url=source, clip=clip) if is_url(source) else Input(path=source, clip=clip)


def device_policy(device: str) -> DevicePolicy:
    """What `--device` asks for: a policy by its name, else a device by its id."""
    from pipelines.spec import DevicePolicy

    if device in ("auto", "hardware", "software"):
        return DevicePolicy.model_validate({"policy": device})
    with values_from("--device"):
        return DevicePolicy(id=device)


def subtitles_of(files: Sequence[Path]) -> tuple[SubtitleFile, ...]:
    """Their languages are what stands before the extension, as in `film.de.srt`."""
    from pipelines.asked.subtitle_files import SubtitleFile

    made = []
    for file in files:
        tag = Path(file.stem).suffix.removeprefix(".")
        made.append(SubtitleFile(path=str(file), language=tag if LANGUAGE.fullmatch(tag) else None))
    return tuple(made)


def job_for(
    source: str, out: Path, preset: Preset | None, choices: Choices, device: str = "auto"
) -> tuple[FileJob, tuple[str, ...]]:
    """The job of `run IN OUT`, and notes on what of the preset was changed to fit."""
    from pipelines.spec import FileJob
    from transcoder.cli.other_targets import other_output
    from transcoder.cli.target import container_of, output_for

    with values_from("options"):
        wanted = input_of(source, choices.start, choices.end)
        other = other_output(out, preset, choices)
        if other is not None:
            return FileJob(input=wanted, outputs=(other,), device=device_policy(device)), ()
    container = container_of(out)
    with values_from("options"):
        output, notes = output_for(container, preset, choices)
        return FileJob(input=wanted, outputs=(output,), device=device_policy(device)), notes
