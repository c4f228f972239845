"""`transcoder jobs`: a service's jobs from the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from transcoder.cli.failures import CommandError, values_from
from transcoder.cli.options import JsonOption, PresetOption, is_url, load_settings, read_preset, read_spec

if TYPE_CHECKING:
    from pipelines.presets import Preset
    from transcoder.cli.client import Client

app = typer.Typer(
    help="List, submit and steer the jobs of a running service. TRANSCODER_API_KEY has its API key.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ServerOption = Annotated[
    str, typer.Option("--server", envvar="TRANSCODER_SERVER", metavar="URL", help="The service to talk to.")
]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="A job's id.")]
DEFAULT_SERVER = "http://127.0.0.1:8080"


def connect(server: str) -> Client:
    from transcoder.cli.client import Client

    return Client(server, _api_key())


def _api_key() -> str | None:
    """From the environment only: what is typed as an option, other users of the machine can see."""
    key = os.environ.get("TRANSCODER_API_KEY", "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise CommandError("invalid_request", "TRANSCODER_API_KEY is no API key: it has unprintable characters")
    return key or None


@app.command("list")
def list_jobs(
    status: Annotated[
        Literal["queued", "running", "completed", "failed", "cancelled"] | None,
        typer.Option(help="Only jobs of this status."),
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Only jobs of this queue.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """List jobs, newest first."""
    from transcoder.cli import jobsheet
    from transcoder.cli.screen import print_json
    from transcoder.jobs import JobStatus

    with connect(server) as client:
        jobs = list(client.jobs(status=JobStatus(status) if status else None, queue=queue, limit=limit))
    if as_json:
        print_json([job.model_dump(mode="json") for job in jobs])
    else:
        jobsheet.show_jobs(jobs)


@app.command()
def show(job_id: IdArgument, as_json: JsonOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """Show one job: where it stands, its attempts, its files."""
    from transcoder.cli import jobsheet

    with connect(server) as client:
        jobsheet.show_job(client.job(job_id), as_json=as_json, server=client.server)


@app.command()
def submit(
    source: Annotated[
        str | None, typer.Argument(metavar="[IN]", help="A file, which is uploaded, or an http(s) URL.")
    ] = None,
    preset: PresetOption = None,
    spec: Annotated[Path | None, typer.Option(help="A job in a JSON file; IN replaces its input.")] = None,
    queue: Annotated[str | None, typer.Option(help="Queue to put it in.")] = None,
    priority: Annotated[int | None, typer.Option(help="Higher starts earlier.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Stay until the job ended; its fate is the exit code.")
    ] = False,
    download: Annotated[
        Path | None, typer.Option("--download", "-d", metavar="FOLDER", help="Wait, then fetch the files into FOLDER.")
    ] = None,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Submit a job; with --wait, see it through."""
    from transcoder.cli import jobsheet, watch
    from transcoder.cli.local import check_file
    from transcoder.cli.screen import say

    if source is not None and not is_url(source):
        check_file(Path(source))
    body = _body(preset, spec)
    body |= {name: value for name, value in (("queue", queue), ("priority", priority)) if value is not None}
    with connect(server) as client:
        if source is not None:
            clip = (body.get("input") or {}).get("clip")
            body["input"] = _sent(client, source) | ({"clip": clip} if clip else {})
            if not is_url(source) and spec is None:
                # an upload is an id: this is what the page and lists call it
                body["metadata"] = {"file": Path(source).name[-255:]} | (body.get("metadata") or {})
        if "input" not in body:
            raise CommandError("invalid_request", "say what to transcode: IN, or --spec with an input")
        job = client.submit(body)
        say(f"job {job.id} {job.status}")
        if wait or download is not None:
            job = watch.until_ended(client, job)
        if download is not None and job.error is None:
            watch.download_all(client, job, download)
        if wait or download is not None or as_json:
            jobsheet.show_job(job, as_json=as_json, server=client.server)
        else:
            print(job.id)
        watch.raise_for_fate(job, ended=wait or download is not None)


@app.command("watch")
def watch_job(job_id: IdArgument, as_json: JsonOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """Follow a job to its end; its fate is the exit code. Ctrl-C leaves the job alone."""
    from transcoder.cli import jobsheet, watch

    with connect(server) as client:
        job = watch.until_ended(client, client.job(job_id))
        jobsheet.show_job(job, as_json=as_json, server=client.server)
        watch.raise_for_fate(job, ended=True)


@app.command()
def cancel(job_id: IdArgument, as_json: JsonOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """Cancel a job that is queued or running."""
    from transcoder.cli.screen import print_json, say

    with connect(server) as client:
        job = client.cancel(job_id)
    say(f"job {job.id} {'is being cancelled' if not job.status.ended else job.status}")
    if as_json:
        print_json(job.model_dump(mode="json"))


@app.command()
def retry(job_id: IdArgument, as_json: JsonOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """Queue a failed or cancelled job again."""
    from transcoder.cli.screen import print_json, say

    with connect(server) as client:
        job = client.retry(job_id)
    say(f"job {job.id} {job.status}")
    if as_json:
        print_json(job.model_dump(mode="json"))


@app.command()
def delete(job_id: IdArgument, server: ServerOption = DEFAULT_SERVER) -> None:
    """Delete a job that ended, and its files."""
    from transcoder.cli.screen import say

    with connect(server) as client:
        client.delete(job_id)
    say(f"job {job_id} deleted")


@app.command()
def log(job_id: IdArgument, server: ServerOption = DEFAULT_SERVER) -> None:
    """Print a job's log."""
    with connect(server) as client:
        for piece in client.log(job_id):
            sys.stdout.write(piece)
    sys.stdout.flush()


@app.command()
def receipt(job_id: IdArgument, server: ServerOption = DEFAULT_SERVER) -> None:
    """Print a completed job's receipt as JSON: what was done, where, and what was measured."""
    from transcoder.cli.screen import print_json

    with connect(server) as client:
        print_json(client.receipt(job_id))


@app.command()
def download(
    job_id: IdArgument,
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where the files go.")] = Path(),
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Fetch a finished job's files."""
    from transcoder.cli import watch

    with connect(server) as client:
        watch.download_all(client, client.job(job_id), folder)


def _body(preset: str | None, spec: Path | None) -> dict[str, Any]:
    """The request without its input, from a spec file or a preset: a preset's file is sent as its outputs."""
    if (preset is None) == (spec is None):
        raise CommandError("invalid_request", "say what to make: either --preset or --spec")
    if spec is not None:
        return read_spec(spec).model_dump(mode="json", exclude_unset=True)
    assert preset is not None
    if preset.endswith(".toml"):
        own: Preset | None = read_preset(preset, load_settings())
        assert own is not None
        return {"kind": "file", "outputs": own.model_dump(mode="json")["outputs"]}
    return {"kind": "file", "preset": preset}


def _sent(client: Client, source: str) -> dict[str, Any]:
    """The job's input: a URL as it is, a file as an upload."""
    from transcoder.cli import watch

    if is_url(source):
        with values_from("IN"):
            return {"url": source}
    return {"upload": watch.upload(client, Path(source)).id}
