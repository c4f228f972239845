"""An API node without work of its own: it follows jobs that others run, and shows all nodes and devices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.transcoder.fixtures_api import Api, problem, serving_api
from tests.transcoder.stubs import StubExecutor, running_service
from transcoder.errors import AlreadyRunning
from transcoder.service import Service
from transcoder.settings import Settings


@pytest.fixture
async def api_node(tmp_path: Path, cluster_url: str) -> AsyncGenerator[Api, None]:
    async with serving_api(tmp_path / "data", database_url=cluster_url, node="front", role="api") as running:
        yield running


@pytest.mark.slow
async def test_an_api_node_shows_and_follows_what_a_worker_does(
    tmp_path: Path, cluster_url: str, api_node: Api
) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    assert executor.gate is not None
    async with running_service(tmp_path, executor, slots=1, database_url=cluster_url, node="back", role="worker"):
        async with asyncio.timeout(20):
            while not (devices := (await api_node.http.get("/v1/devices")).json()["items"]):
                await asyncio.sleep(0.05)
        assert [device["id"] for device in devices] == ["software@back"]
        nodes = (await api_node.http.get("/v1/nodes")).json()["items"]
        assert [(node["name"], node["role"], node["devices"]) for node in nodes] == [
            ("back", "worker", ["software@back"]),
            ("front", "api", []),
        ]
        job = await api_node.submit()
        seen = asyncio.create_task(_events(api_node, job["id"]))
        await asyncio.wait_for(executor.entered.wait(), 20)
        await asyncio.sleep(1.5)
        executor.gate.set()
        kinds = await asyncio.wait_for(seen, 20)
        assert kinds[-1] == ("status", "completed")
        assert ("attempt", "running") in kinds or ("status", "running") in kinds
        path = f"/v1/jobs/{job['id']}/outputs/output.mp4"
        assert (await api_node.http.get(path)).content == b"finished"


async def _events(api: Api, job_id: str) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    async with api.http.stream("GET", f"/v1/jobs/{job_id}/events") as response:
        kind = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: ")).get("status")))
    return found


@pytest.mark.slow
async def test_an_api_node_without_workers_asks_to_come_back_later(
    tmp_path: Path, cluster_url: str, api_node: Api
) -> None:
    uploaded = (await api_node.http.put("/v1/uploads/clip.mp4", content=b"clip")).json()
    spec = {"input": {"upload": uploaded["id"]}, "outputs": [{"type": "mp4"}]}
    for path in ("/v1/jobs", "/v1/plan"):
        refused = await api_node.http.post(path, json=spec)
        problem(refused, 503, "no_worker")
        assert int(refused.headers["retry-after"]) > 0
    assert (await api_node.http.get("/v1/jobs")).json()["items"] == []
    async with running_service(tmp_path, slots=1, database_url=cluster_url, node="back", role="worker"):
        async with asyncio.timeout(20):
            while (sent := await api_node.http.post("/v1/jobs", json=spec)).status_code == 503:
                await asyncio.sleep(0.05)
    assert sent.status_code == 201


@pytest.mark.slow
async def test_a_node_is_drained_and_an_unknown_one_is_not_found(api_node: Api) -> None:
    drained = await api_node.http.patch("/v1/nodes/front", json={"draining": True})
    assert (drained.status_code, drained.json()["state"]) == (200, "draining")
    problem(await api_node.http.patch("/v1/nodes/none", json={"draining": True}), 404, "node_not_found")


@pytest.mark.slow
async def test_a_service_alone_is_one_node_that_can_be_drained(api: Api) -> None:
    (node,) = (await api.http.get("/v1/nodes")).json()["items"]
    assert (node["state"], node["running"], node["devices"]) == ("online", 0, ["software"])
    drained = (await api.http.patch(f"/v1/nodes/{node['name']}", json={"draining": True})).json()
    assert (drained["state"], drained["draining"]) == ("draining", True)
    (device,) = (await api.http.get("/v1/devices")).json()["items"]
    assert device["state"] == "draining"
    again = (await api.http.patch(f"/v1/nodes/{node['name']}", json={"draining": False})).json()
    assert again["state"] == "online"
    problem(await api.http.patch("/v1/nodes/other-node-than-this", json={"draining": True}), 404, "node_not_found")


@pytest.mark.slow
async def test_a_node_s_name_is_used_once_in_a_folder(
    tmp_path: Path, cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transcoder.cluster.sites.LOCK_SECONDS", 0.1)
    async with running_service(tmp_path, database_url=cluster_url, node="one"):
        with pytest.raises(AlreadyRunning):
            async with running_service(tmp_path, database_url=cluster_url, node="one"):
                pass
        async with running_service(tmp_path, database_url=cluster_url, node="two"):
            pass


@pytest.mark.slow
async def test_settings_survive_a_restart_of_the_node(tmp_path: Path, cluster_url: str) -> None:
    async def slots(service: Service) -> list[int]:
        return [state.slots for state in service.devices()]

    async with running_service(tmp_path, slots=2, database_url=cluster_url, node="one") as service:
        await service.update_device("software@one", slots=5, draining=None)
    async with running_service(tmp_path, slots=2, database_url=cluster_url, node="one") as service:
        assert await slots(service) == [5]
    # what nobody has set follows the node's own settings
    async with running_service(tmp_path, slots=2, database_url=cluster_url, node="two"):
        pass
    async with running_service(tmp_path, slots=3, database_url=cluster_url, node="two") as service:
        assert sorted(await slots(service)) == [3, 5]


@pytest.mark.parametrize("role", ["api", "worker"])
def test_a_role_needs_a_database_that_can_be_shared(tmp_path: Path, role: str) -> None:
    with pytest.raises(ValueError, match="postgresql"):
        Settings(data_dir=tmp_path, role=role)  # type: ignore[arg-type]
