"""`transcoder queues` against a running service."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from tests.transcoder.fixtures_api import Api
from transcoder.cli import app


async def run(api: Api, *words: str) -> str:
    """What a command prints; it has to succeed."""
    arguments = ["queues", *words, "--server", f"http://127.0.0.1:{api.port}"]
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.stdout)


@pytest.mark.slow
async def test_queues_are_made_changed_paused_listed_and_deleted(api: Api) -> None:
    await run(api, "set", "night", "--weight", "2", "--max-running", "1", "--device", "software")
    await run(api, "set", "night", "--max-queued", "10")
    await run(api, "pause", "night")
    night = (await api.http.get("/v1/queues/night")).json()
    assert {name: night[name] for name in ("weight", "max_running", "max_queued", "devices", "paused")} == {
        "weight": 2.0,
        "max_running": 1,
        "max_queued": 10,
        "devices": ["software"],
        "paused": True,
    }
    assert "night" in await run(api, "list")
    await run(api, "resume", "night")
    await run(api, "set", "night", "--max-running", "-1", "--device", "all")
    listed = {queue["name"]: queue for queue in json.loads(await run(api, "list", "--json"))}
    assert (listed["night"]["paused"], listed["night"]["max_running"], listed["night"]["devices"]) == (
        False,
        None,
        None,
    )
    await run(api, "delete", "night")
    assert [queue["name"] for queue in (await api.http.get("/v1/queues")).json()["items"]] == ["default"]
