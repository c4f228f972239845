"""`transcoder queues`: a service's queues from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from transcoder.cli.jobs import DEFAULT_SERVER, ServerOption, connect
from transcoder.cli.options import JsonOption

if TYPE_CHECKING:
    from transcoder.queueing.queues import QueueState

app = typer.Typer(
    help="List and change the queues of a running service. TRANSCODER_API_KEY has its API key.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A queue's name.")]


@app.command("list")
def list_queues(as_json: JsonOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """List queues with what waits and runs in them."""
    from transcoder.cli.screen import print_json

    with connect(server) as client:
        queues = client.queues()
    if as_json:
        print_json([queue.model_dump(mode="json") for queue in queues])
    else:
        _show(queues)


@app.command("set")
def set_queue(
    name: NameArgument,
    weight: Annotated[float | None, typer.Option(help="Its share beside other queues' weights.")] = None,
    max_running: Annotated[int | None, typer.Option(help="Most jobs that run at once; -1: no limit.")] = None,
    max_queued: Annotated[int | None, typer.Option(help="Most jobs that wait; -1: no limit.")] = None,
    default_priority: Annotated[int | None, typer.Option(help="Priority of jobs that name none.")] = None,
    device: Annotated[
        list[str] | None, typer.Option(help="The only device it may use; several times for several; `all`.")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Make a queue, or change what is given of it."""
    given = {"weight": weight, "max_running": max_running, "max_queued": max_queued}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    changes |= {key: None for key in ("max_running", "max_queued") if changes.get(key) == -1}
    if default_priority is not None:
        changes["default_priority"] = default_priority
    if device:
        changes["devices"] = None if device == ["all"] else device
    _change(server, name, changes)


@app.command()
def pause(name: NameArgument, server: ServerOption = DEFAULT_SERVER) -> None:
    """Start nothing new in a queue; what runs goes on."""
    _change(server, name, {"paused": True})


@app.command()
def resume(name: NameArgument, server: ServerOption = DEFAULT_SERVER) -> None:
    """End a queue's pause."""
    _change(server, name, {"paused": False})


@app.command()
def delete(name: NameArgument, server: ServerOption = DEFAULT_SERVER) -> None:
    """Delete a queue in which no job waits or runs."""
    from transcoder.cli.screen import say

    with connect(server) as client:
        client.delete_queue(name)
    say(f"queue {name} deleted")


def _change(server: str, name: str, changes: dict[str, Any]) -> None:
    with connect(server) as client:
        _show([client.change_queue(name, changes)])


def _show(queues: list[QueueState]) -> None:
    from transcoder.cli.screen import table

    rows = (
        (
            queue.name,
            f"{queue.weight:g}",
            "paused" if queue.paused else "open",
            str(queue.queued),
            str(queue.running),
            "–" if queue.max_running is None else str(queue.max_running),
            "–" if queue.max_queued is None else str(queue.max_queued),
            "all" if queue.devices is None else " ".join(queue.devices),
        )
        for queue in queues
    )
    table(("queue", "weight", "state", "waiting", "running", "max running", "max waiting", "devices"), rows)
