"""What is around jobs: problems, presets, devices, probe, health, metrics, the OpenAPI document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import BadInput, Crashed, DeadlineExceeded, LimitExceeded, PipelineError
from tests.transcoder.fixtures_api import Api, problem
from transcoder.app import create_app
from transcoder.settings import Settings


@pytest.mark.slow
async def test_unexpected_error_tells_nothing_of_the_inside(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    @api.app.get("/broken")
    async def broken() -> None:
        raise RuntimeError(f"secret in {api.data_dir}")

    response = await api.http.get("/broken")
    problem(response, 500, "internal")
    assert "secret" not in response.text
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "secret in" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput("not media"), 422),
        (LimitExceeded("limit_pixels", "too many pixels", limit=4), 422),
        (DeadlineExceeded("too slow"), 504),
        (Crashed("signal 11 at /data/x"), 500),
    ],
)
async def test_engine_error_of_a_probe_is_a_problem(api: Api, error: PipelineError, status: int) -> None:
    upload = await api.upload()
    api.executor.error = error
    body = problem(await api.http.post("/v1/probe", json={"upload": upload["id"]}), status, error.code)
    assert ("signal" in body["detail"]) is False
    assert body.get("facts") == ({"limit": 4} if isinstance(error, LimitExceeded) else None)


@pytest.mark.slow
async def test_place_of_the_data_folder_is_not_told(api: Api) -> None:
    upload = await api.upload()
    path = api.data_dir.absolute() / "uploads" / upload["id"]
    api.executor.error = BadInput(f"{path}: invalid data", path=str(path))
    response = await api.http.post("/v1/probe", json={"upload": upload["id"]})
    problem(response, 422, "bad_input")
    assert str(api.data_dir) not in response.text


@pytest.mark.slow
async def test_probe_takes_an_input_or_a_request_with_one(api: Api) -> None:
    upload = {"upload": (await api.upload(b"12345"))["id"]}
    bare, wrapped = (
        await api.http.post("/v1/probe", json=upload),
        await api.http.post("/v1/probe", json={"input": upload}),
    )
    assert bare.json() == wrapped.json()
    assert (bare.json()["format"], bare.json()["size_bytes"]) == ("mov", 5)


@pytest.mark.slow
async def test_presets_are_listed_and_can_be_used_as_they_are(api: Api) -> None:
    listed = (await api.http.get("/v1/presets")).json()
    assert listed["next"] is None
    names = [preset["name"] for preset in listed["items"]]
    assert "web-mp4" in names
    preset = (await api.http.get("/v1/presets/web-mp4")).json()
    assert preset == listed["items"][names.index("web-mp4")]
    spec = {"input": {"upload": (await api.upload())["id"]}, "outputs": preset["outputs"]}
    assert (await api.http.post("/v1/jobs", json=spec)).status_code == 201


@pytest.mark.slow
async def test_device_shows_its_load_and_takes_slots_and_draining(api: Api) -> None:
    api.executor.gate.clear()
    await api.submit()
    await api.executor.running.wait()
    (device,) = (await api.http.get("/v1/devices")).json()["items"]
    assert (device["id"], device["slots"], device["busy"], device["state"]) == ("software", 1, 1, "ready")
    changed = (await api.http.patch("/v1/devices/software", json={"slots": 3, "draining": True})).json()
    assert (changed["slots"], changed["state"]) == (3, "draining")
    for wrong in ({"slots": -1}, {"slots": "many"}, {"speed": 1}, []):
        problem(await api.http.patch("/v1/devices/software", json=wrong), 422, "invalid_request")


@pytest.mark.slow
async def test_health_and_readiness_are_told(api: Api) -> None:
    assert (await api.http.get("/healthz")).json()["status"] == "ok"
    ready = await api.http.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)


@pytest.mark.slow
async def test_metrics_count_jobs_slots_requests_and_bytes(api: Api) -> None:
    await api.ended((await api.submit())["id"])
    api.executor.gate.clear()
    api.executor.running.clear()
    await api.make_queue("slow")
    await api.submit(queue="slow")
    await api.executor.running.wait()
    await api.http.get("/nothing/here")
    await api.http.request("PROPFIND", "/v1/jobs")
    response = await api.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = response.text.splitlines()
    for line in (
        'transcoder_jobs_active{queue="slow",status="running"} 1.0',
        'transcoder_jobs_total{queue="default",status="completed"} 1.0',
        'transcoder_slots{device="software"} 1.0',
        'transcoder_slot_busy{device="software"} 1.0',
        'transcoder_attempts_started_total{device="software"} 2.0',
        'transcoder_job_seconds_count{queue="default"} 1.0',
        'transcoder_queue_wait_seconds_count{queue="default"} 1.0',
        'transcoder_frames_total{device="software"} 10.0',
        "transcoder_upload_bytes_total 10.0",
        'transcoder_http_requests_total{method="POST",route="/v1/jobs",status="201"} 2.0',
        'transcoder_http_requests_total{method="PUT",route="/v1/uploads/{name:anyname}",status="201"} 2.0',
        'transcoder_http_requests_total{method="GET",route="other",status="404"} 1.0',
    ):
        assert line in lines, line
    assert any('method="other"' in line for line in lines)


@pytest.mark.slow
async def test_front_page_and_the_documentation_are_pages(api: Api) -> None:
    for path, words in (("/", "/assets/main.js"), ("/docs", "swagger")):
        page = await api.http.get(path)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert words in page.text


@pytest.mark.slow
def test_openapi_document_is_whole(tmp_path: Path) -> None:
    document = create_app(Settings(data_dir=tmp_path)).openapi()
    schemas = document["components"]["schemas"]
    assert "HTTPValidationError" not in schemas
    for reference in _references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas, reference
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], (method, path)
            assert operation["summary"], (method, path)
            for status, response in operation["responses"].items():
                if status.startswith("4"):
                    types = [] if method == "head" else ["application/problem+json"]
                    assert list(response.get("content", ())) == types, (method, path, status)
    submit = document["paths"]["/v1/jobs"]["post"]
    assert set(submit["requestBody"]["content"]) == {"application/json", "multipart/form-data"}
    assert {"201", "200", "422"} <= set(submit["responses"])


@pytest.mark.slow
def test_examples_in_the_document_are_valid(tmp_path: Path) -> None:
    from pipelines.spec import FileJob

    document = create_app(Settings(data_dir=tmp_path)).openapi()
    for path in ("/v1/jobs", "/v1/plan"):
        example = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
        assert FileJob.model_validate(example).input.upload


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [reference for part in value.values() for reference in _references(part)]
    if isinstance(value, list):
        return [reference for part in value for reference in _references(part)]
    return []
