"""Devices over HTTP while they are measured, and on the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from pipelines import capabilities
from pipelines.capabilities import Support
from tests.transcoder import fixtures_api
from tests.transcoder.fixtures_api import Api, ScriptedExecutor, problem, serving_api
from transcoder.children.watch import ChildTask
from transcoder.cli import app
from transcoder.gpus import devices as devices_module


class Driver(ScriptedExecutor):
    """Everything works on its GPU, once `measured` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.measured = asyncio.Event()

    async def execute(self, task: ChildTask, **heard: Any) -> dict[str, Any]:
        if task.op != "check":
            return await super().execute(task, **heard)
        if task.payload["check"]["kind"] != "open":
            await self.measured.wait()
        return {"works": True, "driver": "a driver", "rate_controls": ["cqp"]}


@pytest.fixture
def node(tmp_path: Path) -> str:
    path = tmp_path / "renderD128"
    path.touch()
    return str(path)


@pytest.fixture(autouse=True)
def _vaapi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_module, "support", lambda: Support(vaapi=True, graphs=True))
    monkeypatch.setattr(capabilities, "_exists", lambda encoder: True)


@pytest_asyncio.fixture
async def api(tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Api, None]:
    monkeypatch.setattr(fixtures_api, "ScriptedExecutor", Driver)
    async with serving_api(tmp_path / "data", devices=(node, str(tmp_path / "renderD129"))) as running:
        yield running


async def states(api: Api) -> dict[str, str]:
    items = (await api.http.get("/v1/devices")).json()["items"]
    return {item["id"]: item["state"] for item in items}


async def until(api: Api, device: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(5):
        while (await states(api))[device] != state:
            await asyncio.sleep(0.01)
    items = (await api.http.get("/v1/devices")).json()["items"]
    return next(item for item in items if item["id"] == device)


def driver(api: Api) -> Driver:
    assert isinstance(api.executor, Driver)
    return api.executor


async def test_service_is_ready_while_a_gpu_is_measured(api: Api) -> None:
    assert (await api.http.get("/readyz")).status_code == 200
    assert await states(api) == {
        "node-renderD128": "measuring", "node-renderD129": "unusable", "software": "ready",
    }  # fmt: skip
    driver(api).measured.set()
    gpu = await until(api, "node-renderD128", "ready")
    assert gpu["driver"] == "a driver"
    assert gpu["load"] is None
    assert {"scale_vaapi", "hwupload"} <= set(gpu["filters"])
    encoder = next(c for c in gpu["capabilities"] if c["encoder"] == "hevc_vaapi" and c["bit_depth"] == 10)
    assert encoder["rate_controls"] == ["cqp"]


async def test_a_gpu_with_a_problem_says_what_to_do(api: Api) -> None:
    items = (await api.http.get("/v1/devices")).json()["items"]
    assert "--device /dev/dri" in next(item["problem"] for item in items if item["id"] == "node-renderD129")


@pytest.mark.slow
async def test_a_job_for_a_gpu_waits_until_it_is_measured(api: Api) -> None:
    job = await api.submit(device={"policy": "hardware"})
    assert (await api.http.get(f"/v1/jobs/{job['id']}")).json()["status"] == "queued"
    driver(api).measured.set()
    ended = await api.ended(job["id"])
    assert (ended["status"], ended["attempts"][0]["device"]) == ("completed", "node-renderD128")


@pytest.mark.slow
async def test_a_gpu_is_measured_anew_when_asked_to(api: Api) -> None:
    driver(api).measured.set()
    await until(api, "node-renderD128", "ready")
    driver(api).measured.clear()
    response = await api.http.post("/v1/devices/node-renderD128/measure")
    assert (response.status_code, response.json()["state"]) == (202, "measuring")
    driver(api).measured.set()
    await until(api, "node-renderD128", "ready")


async def test_what_can_not_be_measured_is_refused(api: Api) -> None:
    for device in ("software", "node-renderD129"):
        problem(await api.http.post(f"/v1/devices/{device}/measure"), 409, "conflict")
    problem(await api.http.post("/v1/devices/nothing/measure"), 404, "device_not_found")


async def test_metrics_tell_which_devices_take_jobs(api: Api) -> None:
    text = (await api.http.get("/metrics")).text
    assert 'transcoder_device_ready{device="node-renderD128"} 0.0' in text
    assert 'transcoder_device_ready{device="software"} 1.0' in text


def cli(*arguments: str, **environment: str) -> str:
    result = CliRunner().invoke(app, ["devices", *arguments], env=environment | {"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_command_shows_devices_problems_and_codecs(tmp_path: Path) -> None:
    shown = cli(TRANSCODER_DATA_DIR=str(tmp_path), TRANSCODER_DEVICES=str(tmp_path / "renderD129"))
    assert "can't be used" in shown
    assert "--device /dev/dri" in shown
    assert "libx264, 8 and 10 bit" in shown


@pytest.mark.slow
def test_command_tells_all_of_it_as_json(tmp_path: Path) -> None:
    told = json.loads(cli("--json", TRANSCODER_DATA_DIR=str(tmp_path), TRANSCODER_DEVICES="none"))
    assert [device["id"] for device in told] == ["software"]
    assert {c["encoder"] for c in told[0]["capabilities"]} >= {"libx264", "aac"}
