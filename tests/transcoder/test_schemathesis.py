"""Requests made up from the OpenAPI document: no answer is an error of ours, and each is one that is documented."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from starlette.testclient import TestClient

from tests.transcoder.fixtures_api import ScriptedExecutor
from transcoder.app import create_app
from transcoder.service import Service
from transcoder.settings import Settings

EXAMPLES = int(os.environ.get("TEST_EXAMPLES", "15"))
"""For each operation. More find more, and take longer."""

pytestmark = pytest.mark.slow

# a stream without an end is tried in test_feed
SCHEMA = schemathesis.openapi.from_dict(create_app(Settings()).openapi()).exclude(path="/v1/events")


@schemathesis.serializer("application/offset+octet-stream")
def _as_it_is(context: schemathesis.SerializationContext, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@dataclass(frozen=True)
class Live:
    """A service in this process, and what is in it."""

    client: TestClient
    known: dict[str, str]

    def send(self, case: schemathesis.Case) -> httpx2.Response:
        request = requests.Request(**case.as_transport_kwargs(base_url="http://localhost")).prepare()
        assert request.method is not None
        assert request.url is not None
        headers = {
            name: value.encode("latin-1") if isinstance(value, str) else value
            for name, value in request.headers.items()
        }
        return self.client.request(request.method, request.url, headers=headers, content=request.body)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    chosen = Settings(data_dir=tmp_path_factory.mktemp("fuzz") / "data", software_slots=1, shutdown_seconds=0.0)
    app = create_app(chosen, make_service=partial(Service, supervisor=ScriptedExecutor()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        upload = client.put("/v1/uploads/clip.mov", content=b"media").json()["id"]
        job = client.post("/v1/jobs", json={"input": {"upload": upload}, "outputs": [{"type": "mp4"}]}).json()["id"]
        # read to its end: the job has ended then
        assert "status" in client.get(f"/v1/jobs/{job}/events").text
        begin = {"Tus-Resumable": "1.0.0", "Upload-Length": "10"}
        part = client.post("/v1/tus", headers=begin).headers["location"].rpartition("/")[2]
        known = {
            "job_id": job,
            "upload_id": upload,
            "path": "output.mp4",
            "device_id": "software",
            "part": part,
            "queue": "default",
        }
        yield Live(client, known)


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.parametrize("known", [False, True], ids=["any id", "known id"])
def test_answers_are_those_that_are_documented(case: schemathesis.Case, live: Live, known: bool) -> None:
    if known:
        mine = live.known | ({"upload_id": live.known["part"]} if "/tus/" in case.path else {})
        case.path_parameters = {name: mine.get(name, value) for name, value in case.path_parameters.items()}
    response = live.send(case)
    case.validate_response(response, checks=[not_a_server_error, status_code_conformance, content_type_conformance])
    assert live.client.get("/readyz").json()["ready"]
