"""The command line. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from transcoder.cli import demo, devices, inspect, jobs, keys, queues, run, serve, top

app = typer.Typer(
    name="transcoder",
    help="Transcode media files: here with `run`, or as a service with `serve`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"transcoder {version('transcoder')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command()(demo.demo)
app.command()(run.run)
app.command()(inspect.probe)
app.command()(inspect.plan)
app.command()(inspect.presets)
app.command()(devices.devices)
app.command()(serve.serve)
app.command()(top.top)
app.add_typer(jobs.app, name="jobs")
app.add_typer(queues.app, name="queues")
app.add_typer(keys.app, name="keys")
