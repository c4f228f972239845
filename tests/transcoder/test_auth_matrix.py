"""Every route of the application × every kind of caller. A new route is in it by being there."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi.routing import iter_route_contexts

from tests.transcoder.fixtures_api import Api, problem
from tests.transcoder.fixtures_auth import ALL, Caller, keyed_api, make_key, store_of
from transcoder.api.auth import needed_scope
from transcoder.app import create_app
from transcoder.auth.keys import new_token
from transcoder.auth.scopes import Scope
from transcoder.clock import utc_now
from transcoder.settings import Settings
from transcoder.web import ASSETS

pytestmark = pytest.mark.asyncio(loop_scope="module")

MISSING = "0" * 34
IDS = ("job_id", "upload_id", "tus_id")

ROUTES = sorted(
    {(method, route.path) for route in iter_route_contexts(create_app(Settings()).routes) for method in route.methods}
)

PUBLIC = {
    "/",
    "/docs",
    "/openapi.json",
    "/healthz",
    "/readyz",
    *(path for path in ASSETS if path.startswith("/assets/")),
}
BY_LINK = {"/v1/s/{token}/{path:path}"}
"""Whose address is the key: tests of links tell what they refuse."""

EXCEPTIONS = {
    ("GET", "/metrics"): Scope.ADMIN,
    ("PATCH", "/v1/devices/{device_id}"): Scope.ADMIN,
    ("POST", "/v1/devices/{device_id}/measure"): Scope.ADMIN,
    ("PUT", "/v1/queues/{queue}"): Scope.ADMIN,
    ("PATCH", "/v1/nodes/{node}"): Scope.ADMIN,
    ("DELETE", "/v1/queues/{queue}"): Scope.ADMIN,
    ("GET", "/v1/webhooks/secret"): Scope.SUBMIT,
    ("POST", "/v1/webhooks/secret"): Scope.SUBMIT,
    ("POST", "/v1/jobs/{job_id}/outputs/{path:path}/link"): Scope.READ,
    ("POST", "/v1/jobs/{job_id}/events/link"): Scope.READ,
    ("POST", "/v1/jobs/{job_id}/thumbnail.jpg/link"): Scope.READ,
    ("HEAD", "/v1/tus/{upload_id}"): Scope.SUBMIT,
}
"""Where reading needs not `read`, or changing not `submit`."""

BODIES = {
    ("PATCH", "/v1/jobs/{job_id}"): {"priority": 1},
    ("PATCH", "/v1/devices/{device_id}"): {"slots": 1},
    ("PUT", "/v1/queues/{queue}"): {"weight": 2},
    ("PATCH", "/v1/nodes/{node}"): {"draining": False},
}
ENDLESS = ("/v1/events",)
TUS_HEADERS = {
    "Tus-Resumable": "1.0.0",
    "Upload-Offset": "0",
    "Upload-Length": "5",
    "X-HTTP-Method-Override": "PATCH",
    "Content-Type": "application/offset+octet-stream",
}
INVALID = ("unknown", "wrong secret", "revoked", "expired", "no key's form")
LACKING = {
    Scope.READ: (Scope.SUBMIT,),
    Scope.SUBMIT: (Scope.READ,),
    Scope.ADMIN: (Scope.SUBMIT, Scope.READ),
}


@dataclass(frozen=True)
class Stage:
    """A service with a tenant's job, and the keys of everyone who would like to see it."""

    api: Api
    owner: Caller
    names: dict[str, str]
    tokens: dict[str, str]

    async def call(
        self, method: str, template: str, token: str | None, names: dict[str, str] | None = None
    ) -> httpx2.Response:
        known = names or self.names
        path = filled(template, known | {"upload_id": known["tus_id"]} if "/tus" in template else known)
        headers = TUS_HEADERS | ({} if token is None else {"X-Api-Key": token})
        body = BODIES.get((method, template))
        async with self.api.http.stream(method, path, headers=headers, json=body) as response:
            # one stream goes on for ever: how it begins is its answer
            if template not in ENDLESS or response.is_error:
                await response.aread()
        return response


def filled(template: str, names: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: names.get(match[1], "x"), template)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage, None]:
    async with keyed_api(tmp_path_factory.mktemp("matrix") / "data", requests_burst=100_000) as (api, owner):
        keys, past = store_of(api), utc_now() - timedelta(seconds=1)
        tokens = {
            "unknown": str(new_token()),
            "wrong secret": owner.token[:-4] + ("0000" if owner.token[-4:] != "0000" else "1111"),
            "revoked": await make_key(keys, "default", revoked_at=past),
            "expired": await make_key(keys, "default", expires_at=past),
            "no key's form": "tk_x_y",
            "other tenant": await make_key(keys, "other"),
            "right": owner.token,
        }
        for scope, lacking in LACKING.items():
            tokens[f"without {scope}"] = await make_key(keys, "default", *lacking)
        yield Stage(api, owner, await things(owner), tokens)


async def things(owner: Caller) -> dict[str, str]:
    job_id = await owner.finished_job()
    tus = await owner.request("POST", "/v1/tus", headers={"Tus-Resumable": "1.0.0", "Upload-Length": "5"})
    return {
        "job_id": job_id,
        "upload_id": await owner.upload(),
        "tus_id": tus.headers["location"].rpartition("/")[2],
        "path": "output.mp4",
        "device_id": "software",
        "name": "web-mp4",
        "queue": "default",
    }


def scope_of(method: str, path: str) -> Scope:
    usual = Scope.READ if method in ("GET", "HEAD") else Scope.SUBMIT
    return EXCEPTIONS.get((method, path), usual)


private = pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[1] not in PUBLIC | BY_LINK])
public = pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[1] in PUBLIC])


def refused(response: httpx2.Response, status: int, code: str) -> None:
    if response.request.method == "HEAD":
        assert response.status_code == status
    else:
        problem(response, status, code)


@private
async def test_no_key_is_a_401(stage: Stage, method: str, path: str) -> None:
    response = await stage.call(method, path, None)
    refused(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == 'Bearer realm="transcoder"'


@pytest.mark.slow
@private
async def test_key_that_is_not_valid_is_a_401(stage: Stage, method: str, path: str) -> None:
    for kind in INVALID:
        response = await stage.call(method, path, stage.tokens[kind])
        refused(response, 401, "unauthorized")
        assert 'error="invalid_token"' in response.headers["www-authenticate"], kind


@private
async def test_key_without_the_scope_is_a_403(stage: Stage, method: str, path: str) -> None:
    response = await stage.call(method, path, stage.tokens[f"without {scope_of(method, path)}"])
    refused(response, 403, "forbidden")


@pytest.mark.parametrize(
    ("method", "path"),
    [route for route in ROUTES if "_id}" in route[1] and route[0] != "OPTIONS" and "device" not in route[1]],
)
async def test_thing_of_another_tenant_is_missing_and_nothing_else(stage: Stage, method: str, path: str) -> None:
    missing = stage.names | dict.fromkeys(IDS, MISSING)
    others = await stage.call(method, path, stage.tokens["other tenant"])
    absent = await stage.call(method, path, stage.tokens["other tenant"], missing)
    assert others.status_code == absent.status_code == 404
    blank = others.text
    for name in IDS:
        blank = blank.replace(stage.names[name], MISSING)
    assert blank == absent.text
    assert {**others.headers, "date": ""} == {**absent.headers, "date": ""}
    for name, template in (("job_id", "/v1/jobs/{job_id}"), ("upload_id", "/v1/uploads/{upload_id}")):
        assert (await stage.call("GET", template, stage.tokens["right"])).json()["id"] == stage.names[name]
    assert (await stage.call("HEAD", "/v1/tus/{upload_id}", stage.tokens["right"])).headers["upload-offset"] == "0"


PAST_THE_GATE = {
    # the node has another name
    "/v1/nodes/{node}": "node_not_found",
    # this executor tells no plan to write one from, and makes no pictures
    "/v1/jobs/{job_id}/receipt": "receipt_not_found",
    "/v1/jobs/{job_id}/thumbnail.jpg": "thumbnail_not_found",
}
"""What a right key gets where there is nothing to be had: the answer of the call itself, not of the gate."""


def spent(method: str, path: str) -> bool:
    """Whether a call changes what later calls need: such a one gets things of its own, which takes a while."""
    return "_id}" in path and method not in ("GET", "HEAD", "OPTIONS")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param(*route, marks=[pytest.mark.slow] if spent(*route) else [])
        for route in ROUTES
        if route[1] not in PUBLIC | BY_LINK
    ],
)
async def test_right_key_passes(stage: Stage, method: str, path: str) -> None:
    own = await things(stage.owner) if spent(method, path) else stage.names
    response = await stage.call(method, path, stage.tokens["right"], own)
    if path in PAST_THE_GATE:
        if method != "HEAD":
            problem(response, 404, PAST_THE_GATE[path])
    else:
        assert response.status_code not in (401, 403, 404, 429, 500), response.headers


@public
@pytest.mark.parametrize("kind", [None, "unknown", "revoked", "right"])
async def test_what_is_public_is_read_by_everyone(stage: Stage, method: str, path: str, kind: str | None) -> None:
    response = await stage.call(method, path, None if kind is None else stage.tokens[kind])
    assert response.status_code in (200, 307)


@pytest.mark.slow
async def test_what_is_public_is_listed_here_and_nothing_of_it_changes_anything(stage: Stage) -> None:
    for path in PUBLIC:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            problem(await stage.api.http.request(method, path), 401, "unauthorized")


async def test_health_tells_no_details_without_a_key(stage: Stage) -> None:
    for path in ("/healthz", "/readyz"):
        bare = (await stage.call("GET", path, None)).json()
        assert set(bare) <= {"status", "ready"}
        assert set((await stage.call("GET", path, stage.tokens["right"])).json()) > set(bare)


@pytest.mark.parametrize("path", ["/new", "/static/a.js", "/v2/jobs", "//v1/jobs", "/V1/jobs", "/v1", "/metrics/"])
async def test_what_no_rule_names_needs_admin(stage: Stage, path: str) -> None:
    assert needed_scope("GET", path) is Scope.ADMIN
    refused(await stage.call("GET", path, None), 401, "unauthorized")
    refused(await stage.call("GET", path, stage.tokens["without admin"]), 403, "forbidden")


async def test_lists_show_ones_own_only(stage: Stage) -> None:
    other = Caller(stage.api, await make_key(store_of(stage.api), "listed"))
    mine = await other.finished_job()
    listed = (await other.request("GET", "/v1/jobs?limit=500")).json()["items"]
    assert [job["id"] for job in listed] == [mine]
    assert mine not in (await stage.owner.request("GET", "/v1/jobs?limit=500")).text


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/probe", "/v1/plan"])
async def test_upload_of_another_tenant_is_no_input(stage: Stage, path: str) -> None:
    other = Caller(stage.api, stage.tokens["other tenant"])
    answers = []
    for upload in (stage.names["upload_id"], MISSING):
        body: dict[str, Any] = {"input": {"upload": upload}}
        body |= {} if path == "/v1/probe" else {"preset": "web-mp4"}
        answers.append(await other.request("POST", path, json=body))
    for answer in answers:
        problem(answer, 422, "upload_not_found")
    assert answers[0].text.replace(stage.names["upload_id"], MISSING) == answers[1].text


async def test_idempotency_key_is_each_tenants_own(stage: Stage) -> None:
    other = Caller(stage.api, stage.tokens["other tenant"])
    headers = {"Idempotency-Key": "order-1"}
    jobs = []
    for caller, title in ((stage.owner, "a"), (other, "b")):
        body = {"input": {"upload": await caller.upload()}, "outputs": [{"type": "mp4"}], "metadata": {"title": title}}
        response = await caller.request("POST", "/v1/jobs", json=body, headers=headers)
        assert response.status_code == 201, response.text
        jobs.append(response.json()["id"])
    assert len(set(jobs)) == 2


@pytest.mark.slow
async def test_key_of_some_queues_submits_to_those_only(stage: Stage) -> None:
    token = await make_key(store_of(stage.api), "default", *ALL, queues=("night",))
    caller = Caller(stage.api, token)
    await stage.owner.request("PUT", "/v1/queues/night", json={})
    assert (await caller.submit(queue="night")).status_code == 201
    problem(await caller.submit(queue="default"), 403, "forbidden")
    files, data = {"file": ("a.mov", b"media")}, {"preset": "web-mp4"}
    problem(await caller.request("POST", "/v1/jobs", files=files, data=data), 403, "forbidden")
    assert (await caller.request("POST", "/v1/jobs", files=files, data=data | {"queue": "night"})).status_code == 201
