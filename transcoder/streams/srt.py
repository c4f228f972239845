"""SRT, by the tool of its makers (srt-tools): a process of its own for each connection, whose pipes are handed over."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from asyncio.subprocess import DEVNULL, Process
from urllib.parse import parse_qsl, quote

from pipelines.errors import PipelineError
from transcoder.network.addresses import Address
from transcoder.streams.relay import Handover
from transcoder.streams.urls import StreamUrl

TOOL = "srt-live-transmit"
KEPT = {
    "latency": re.compile(r"[0-9]{1,5}"),
    "streamid": re.compile(r".{1,512}"),
    "passphrase": re.compile(r".{10,79}"),
}
"""What a URL may ask for."""


class UnsupportedProtocol(PipelineError):
    code = "unsupported_protocol"


def srt_tool() -> str:
    """Its path; UnsupportedProtocol where it is not installed."""
    found = shutil.which(TOOL)
    if found is None:
        raise UnsupportedProtocol(f"SRT needs {TOOL} (Debian: srt-tools) on this machine", stage="fetch")
    return found


async def srt_connection(url: StreamUrl, address: Address, *, sends: bool) -> Handover:
    """A caller's connection."""
    asked = dict(parse_qsl(url.path.partition("?")[2]))
    options = {name: value for name, value in asked.items() if name in KEPT and KEPT[name].fullmatch(value)}
    return await _transmit({"mode": "caller", **options}, address, url.port, sends=sends)


async def srt_listener(address: Address, port: int, passphrase: str) -> Handover:
    """Waits for one publisher. The tool does not look at stream ids: who knows the passphrase may publish."""
    options = {"mode": "listener", "passphrase": passphrase}
    return await _transmit(options, address, port, sends=False)


async def _transmit(options: dict[str, str], address: Address, port: int, *, sends: bool) -> Handover:
    tool = srt_tool()
    host = f"[{address}]" if address.version == 6 else str(address)
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
    remote, local = f"srt://{host}:{port}?{query}", "file://con"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours:
        process = await asyncio.create_subprocess_exec(
            tool, "-q", "-a:no", "-chunk:1316", *((local, remote) if sends else (remote, local)),
            stdin=ours.fileno() if sends else DEVNULL, stdout=DEVNULL if sends else ours.fileno(), stderr=DEVNULL,
            start_new_session=True, env={"LC_ALL": "C"},
        )  # fmt: skip
    return Handover(theirs, format=None if sends else "mpegts", work=lambda: _watch(process))


async def _watch(process: Process) -> None:
    """Until it ends, or the connection is given up."""
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
