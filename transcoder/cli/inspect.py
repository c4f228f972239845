"""`transcoder probe`, `plan` and `presets`: what is it, what would be done, what is there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from transcoder.cli.choices import Choices, takes_choices
from transcoder.cli.failures import CommandError
from transcoder.cli.options import (
    DeviceOption,
    JsonOption,
    PresetOption,
    device_policy,
    input_of,
    job_for,
    load_settings,
    read_preset,
    read_spec,
)

if TYPE_CHECKING:
    from pipelines.opening.input import LocalFile
    from pipelines.presets import Preset
    from pipelines.rendition import Plan
    from pipelines.source import SourceInfo
    from pipelines.spec import FileJob
    from transcoder.cli.local import Engine
    from transcoder.settings import Settings

T = TypeVar("T")


def probe(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A file, or an http(s) URL.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a file is: format, tracks, sizes, rates, colours."""
    from transcoder.cli.screen import print_json

    info = _with_file(source, load_settings(), _probed)
    if as_json:
        print_json(info.model_dump(mode="json"))
    else:
        from transcoder.cli.sheets import show_source

        show_source(source, info)


@takes_choices
def plan(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file, or an http(s) URL.")],
    out: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Its extension picks the format, as in `run`.")
    ] = None,
    *,
    choices: Choices,
    preset: PresetOption = None,
    spec: Annotated[
        Path | None, typer.Option(help="A job in a JSON file, as POST /v1/jobs takes it; IN replaces its input.")
    ] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Show what a run would do, and why, without doing it."""
    from transcoder.cli.screen import print_json, say

    settings = load_settings()
    job, notes = _job(source, out, read_preset(preset, settings), spec, choices, settings)
    if device != "auto":
        job = job.model_copy(update={"device": device_policy(device)})
    for note in notes:
        say(f"note: {note}")

    def planned(engine: Engine, file: LocalFile) -> Plan:
        from pipelines.facts.survey import examine
        from transcoder.cli.local import beside

        file = replace(file, beside=beside(job.input.subtitles))
        return engine.plan(job, examine(job, file, engine.settings.limits))

    made = _with_file(source, settings, planned)
    if as_json:
        print_json(made.model_dump(mode="json"))
    else:
        from transcoder.cli.sheets import show_plan

        show_plan(made)


def presets(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show this one as TOML.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the presets, or print one: `transcoder presets web-mp4 > mine.toml`."""
    from pipelines.presets import find_preset, load_presets, preset_files
    from transcoder.cli.screen import print_json, table

    folder = load_settings().presets_dir
    loaded = load_presets(folder)
    if name is not None:
        preset = find_preset(name, loaded)
        if as_json:
            print_json(preset.model_dump(mode="json"))
        else:
            print(preset_files(folder)[name].read_text(encoding="utf-8"), end="")
    elif as_json:
        print_json([preset.model_dump(mode="json") for preset in loaded.values()])
    else:
        table(("preset", "what it makes"), ((preset.name, preset.description) for preset in loaded.values()))


def _job(
    source: str, out: Path | None, preset: Preset | None, spec: Path | None, choices: Choices, settings: Settings
) -> tuple[FileJob, tuple[str, ...]]:
    """The job to plan: from a spec file, for an OUT, or a preset's own outputs."""
    from pipelines.presets import load_presets, resolve
    from pipelines.spec import FileJob

    if spec is not None:
        if out is not None or preset is not None or choices.given:
            raise CommandError("invalid_request", "--spec says it all: no OUT, preset or other option goes with it")
        job = resolve(read_spec(spec), load_presets(settings.presets_dir))
        if job.inputs is not None:
            raise CommandError("invalid_request", "a spec of several inputs is planned by the service: POST /v1/plan")
        kept = {"clip": job.input.clip, "subtitles": job.input.subtitles}
        return job.model_copy(update={"input": input_of(source).model_copy(update=kept)}), ()
    if out is not None:
        return job_for(source, out, preset, choices)
    if preset is None:
        raise CommandError("invalid_request", "say what to plan: OUT, --preset or --spec")
    others = [option for option in choices.given if option not in ("--start", "--end")]
    if others:
        raise CommandError("invalid_request", f"{', '.join(others)}: name an OUT for options to change the preset")
    return FileJob(input=input_of(source, choices.start, choices.end), outputs=preset.outputs), ()


def _probed(engine: Engine, file: LocalFile) -> SourceInfo:
    from pipelines.probe import probe as look

    return look(file, engine.settings.limits)


def _with_file(source: str, settings: Settings, use: Callable[[Engine, LocalFile], T]) -> T:
    from transcoder.cli.local import Engine, interruptible
    from transcoder.cli.screen import Quiet

    engine = Engine(settings, Quiet())
    with tempfile.TemporaryDirectory(prefix="transcoder-") as scratch:
        return interruptible(lambda stop: use(engine, engine.open(source, Path(scratch), stop)))
