"""Hostile and wrong requests: each is refused as a problem that tells what is wrong, and changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from tests.transcoder.fixtures_api import Api, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLS = (
    ("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("POST", "/stop"), ("GET", "/events"),
    ("GET", "/log"), ("GET", "/outputs/a.mp4"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "pointers"),
    [
        ({"outputs": [{"type": "mp4"}]}, {"/input"}),
        ({"input": {"path": "a"}, "outputs": [{"type": "mp5"}]}, {"/outputs/0"}),
        ({"input": {"path": "a"}, "outputs": [{"type": "mp4", "video": {"hight": 1}}]}, {"/outputs/0/video/hight"}),
        (
            {"input": {"path": "a"}, "outputs": [{"type": "mp4"}, {"type": "mp4", "video": {"codec": "h265"}}]},
            {"/outputs/1/video/codec"},
        ),
        ({"input": {"path": "a"}, "outputs": [{"type": "mp4", "video": "copied"}]}, {"/outputs/0/video"}),
        ({"input": {}, "outputs": [{"type": "mp4"}]}, {"/input"}),
        ({"input": {"path": "a"}, "preset": "x", "extra": 1, "priority": "high"}, {"/extra", "/priority"}),
        ({"input": {"path": "a"}, "preset": "x", "metadata": {"a/b~c": {}}}, {"/metadata/a~1b~0c"}),
        ({"input": {"path": "a"}}, {""}),
        ([], {""}),
        ("text", {""}),
    ],
)
async def test_faults_have_pointers_into_the_body(shared_api: Api, spec: Any, pointers: set[str]) -> None:
    body = problem(await shared_api.http.post("/v1/jobs", json=spec), 422, "invalid_request")
    assert {fault["pointer"] for fault in body["errors"]} == pointers
    assert all(fault["detail"] and fault["in"] == "body" for fault in body["errors"])


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b'{"a": NaN}', b'{"priority": 1, "priority": 2}', b"[" * 100_000, b"not json"],
    ids=["empty", "cut", "no utf-8", "NaN", "double key", "deep", "text"],
)
async def test_body_that_is_no_json_is_malformed(shared_api: Api, body: bytes) -> None:
    problem(await shared_api.http.post("/v1/jobs", content=body), 400, "malformed_body")


async def test_lone_surrogate_is_refused(shared_api: Api) -> None:
    body = b'{"input": {"path": "\\ud800"}, "preset": "web-mp4", "metadata": {"\\ud800": "\\udfff"}}'
    problem(await shared_api.http.post("/v1/jobs", content=body), 422, "invalid_request")


async def test_json_larger_than_a_mebibyte_is_refused(shared_api: Api) -> None:
    problem(await shared_api.http.post("/v1/jobs", content=b" " * (1 << 20) + b"{}"), 413, "payload_too_large")


@pytest.mark.parametrize(
    ("spec", "status", "code"),
    [
        ({"input": {"path": "a"}, "preset": "nope"}, 422, "unknown_preset"),
        ({"input": {"path": "/etc/passwd"}, "preset": "web-mp4"}, 422, "path_not_allowed"),
        ({"input": {"upload": "0" * 34}, "preset": "web-mp4"}, 422, "upload_not_found"),
        ({"input": {"url": "file:///etc/passwd"}, "preset": "web-mp4"}, 422, "blocked_address"),
        ({"input": {"url": "http://a.example/\r\nX: y"}, "preset": "web-mp4"}, 422, "blocked_address"),
        ({"input": {"upload": "x"}, "preset": "web-mp4", "device": {"policy": "hardware"}}, 422, "no_device"),
    ],
)
async def test_what_can_not_work_is_refused(shared_api: Api, spec: dict[str, Any], status: int, code: str) -> None:
    problem(await shared_api.http.post("/v1/jobs", json=spec), status, code)


async def test_plan_refuses_a_picture_that_is_not_there_as_the_job_does(shared_api: Api) -> None:
    uploaded = (await shared_api.http.put("/v1/uploads/clip.mp4", content=b"clip")).json()["id"]
    for image, code in (({"upload": "0" * 34}, "upload_not_found"), ({"path": "/etc/logo.png"}, "path_not_allowed")):
        filters = [{"type": "overlay", "image": image}]
        spec = {"input": {"upload": uploaded}, "outputs": [{"type": "mp4", "video": {"filters": filters}}]}
        planned = problem(await shared_api.http.post("/v1/plan", json=spec), 422, code)
        assert problem(await shared_api.http.post("/v1/jobs", json=spec), 422, code) == planned
    await shared_api.http.delete(f"/v1/uploads/{uploaded}")


async def test_key_of_odd_characters_is_refused(shared_api: Api) -> None:
    for key in ("a b", "k" * 256):
        body = problem(
            await shared_api.http.post("/v1/jobs", json={}, headers={"Idempotency-Key": key}), 422, "invalid_request"
        )
        assert body["errors"][0]["in"] == "header"


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("limit=0", 422, "invalid_request"),
        ("limit=501", 422, "invalid_request"),
        ("status=done", 422, "invalid_request"),
        ("cursor=xyz", 400, "invalid_cursor"),
    ],
)
async def test_bad_query_is_a_problem(shared_api: Api, query: str, status: int, code: str) -> None:
    body = problem(await shared_api.http.get(f"/v1/jobs?{query}"), status, code)
    if status == 422:
        assert body["errors"][0]["pointer"] == query.partition("=")[0]
        assert body["errors"][0]["in"] == "query"


async def test_unknown_job_is_a_404_everywhere(shared_api: Api) -> None:
    for method, path in CALLS:
        for job_id in ("0" * 34, "x", "%00", "%F0%9F%8E%AC"):
            problem(await shared_api.http.request(method, f"/v1/jobs/{job_id}{path}"), 404, "job_not_found")


@pytest.mark.parametrize(
    ("fields", "code", "status"),
    [
        ({}, "invalid_request", 422),
        ({"preset": "nope"}, "unknown_preset", 422),
        ({"preset": "web-mp4", "color": "red"}, "invalid_request", 422),
        ({"preset": "web-mp4", "priority": "high"}, "invalid_request", 422),
        ({"spec": "{"}, "malformed_body", 400),
        ({"spec": "[]"}, "invalid_request", 422),
        ({"spec": '{"input": 1}'}, "invalid_request", 422),
        ({"spec": '{"input": {"url": "http://a.example/"}, "preset": "web-mp4"}'}, "invalid_request", 422),
    ],
)
async def test_refused_form_leaves_no_upload(shared_api: Api, fields: dict[str, str], code: str, status: int) -> None:
    response = await shared_api.http.post("/v1/jobs", files={"file": ("a.mov", b"media")}, data=fields)
    problem(response, status, code)
    assert shared_api.stored() == []


async def test_every_refusal_is_a_problem(shared_api: Api) -> None:
    problem(await shared_api.http.get("/nothing"), 404, "not_found")
    problem(await shared_api.http.get("/v1/jobs/"), 404, "not_found")
    refused = await shared_api.http.put("/v1/jobs")
    problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"]
    problem(await shared_api.http.get("/v1/presets/nope"), 404, "not_found")
    problem(await shared_api.http.patch("/v1/devices/nope", json={"slots": 1}), 404, "device_not_found")


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {""}),
        ({"upload": "a", "url": "http://a.example/"}, {""}),
        ({"file": "a"}, {"/file"}),
        ({"input": {"upload": "a"}, "extra": 1}, {"/extra"}),
        ({"input": "a"}, {"/input"}),
    ],
)
async def test_probe_refuses_what_is_no_input(shared_api: Api, body: dict[str, Any], pointers: set[str]) -> None:
    refused = problem(await shared_api.http.post("/v1/probe", json=body), 422, "invalid_request")
    assert {fault["pointer"] for fault in refused["errors"]} == pointers


async def test_probe_of_an_inner_address_is_blocked(shared_api: Api) -> None:
    for url in (
        f"http://127.0.0.1:{shared_api.port}/healthz",
        f"http://localhost:{shared_api.port}/",
        "http://169.254.169.254/",
    ):
        problem(await shared_api.http.post("/v1/probe", json={"url": url}), 422, "blocked_address")


@pytest.mark.parametrize("name", [
    "../../etc/passwd", "/etc/passwd", "..", "a/../b", "C:\\a.mov", "a\r\nX-Injected: 1", "a\x00b", "\x1b[31m",
    "%2e%2e", "ü 🎬", "a?b#c", "x" * 5000, "con", "\u202egpj.exe", "<script>", "",
])  # fmt: skip
async def test_hostile_name_is_metadata_and_nothing_more(shared_api: Api, name: str) -> None:
    response = await shared_api.http.put(f"/v1/uploads/{quote(name, safe='').replace('.', '%2E')}", content=b"media")
    assert response.status_code == 201, response.text
    upload = response.json()
    assert shared_api.stored() == [upload["id"]]
    await shared_api.http.delete(f"/v1/uploads/{upload['id']}")
    assert upload["name"].isprintable()
    assert len(upload["name"]) <= 255
    if name.isprintable() and 0 < len(name) <= 255:
        assert upload["name"] == name


async def test_upload_form_without_its_file_or_with_more_is_refused(shared_api: Api) -> None:
    post = partial(shared_api.http.post, "/v1/uploads")
    problem(await post(files={"name": (None, "x")}), 422, "invalid_request")
    body = problem(await post(files={"file": ("a", b"x")}, data={"color": "red"}), 422, "invalid_request")
    assert [fault["pointer"] for fault in body["errors"]] == ["/color"]
    problem(await post(content=b"media"), 400, "malformed_body")
    problem(await post(content=b"", headers={"content-type": "multipart/form-data"}), 400, "malformed_body")
    assert shared_api.stored() == []
