"""What browsers are told with every answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import pytest
import pytest_asyncio

from tests.transcoder.fixtures_api import Api, serving_api
from transcoder.api.headers import security_headers, shown_inline

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADDRESSES = (
    "/", "/docs", "/openapi.json", "/healthz", "/readyz", "/metrics", "/nothing", "/v1/jobs", "/v1/jobs/x",
    "/v1/presets", "/v1/jobs/x/outputs/a.mp4", "/v1/jobs?limit=0",
)  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def job_id(shared_api: Api) -> str:
    return str((await shared_api.ended((await shared_api.submit())["id"]))["id"])


def checked(response: httpx2.Response) -> str:
    """The answer's content security policy, after checking what every answer has."""
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["referrer-policy"] == "no-referrer"
    policy = response.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    return policy


@pytest.mark.parametrize("address", ADDRESSES)
async def test_every_answer_has_them(shared_api: Api, address: str) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS"):
        checked(await shared_api.http.request(method, address))
    checked(await shared_api.http.get(address, headers={"Host": "evil.example"}))


async def test_api_answers_load_nothing_and_are_not_kept(shared_api: Api, job_id: str) -> None:
    for address in (f"/v1/jobs/{job_id}", f"/v1/jobs/{job_id}/log", "/v1/jobs", f"/v1/jobs/{job_id}/events"):
        response = await shared_api.http.get(address)
        assert checked(response) == "default-src 'none'; frame-ancestors 'none'"
        assert response.headers["cache-control"].startswith("no-store")


async def test_output_is_a_sandbox_without_scripts(shared_api: Api, job_id: str) -> None:
    for headers in ({}, {"Range": "bytes=0-9"}, {"Range": "bytes=999999-"}):
        policy = checked(await shared_api.http.get(f"/v1/jobs/{job_id}/outputs/output.mp4", headers=headers))
        assert policy.startswith("sandbox; default-src 'none'")
        assert "script-src" not in policy
    response = await shared_api.http.get(f"/v1/jobs/{job_id}/outputs/output.mp4")
    assert response.headers["cache-control"] == "private, no-cache"


async def test_documentation_may_load_what_it_needs_and_no_more(shared_api: Api) -> None:
    page = await shared_api.http.get("/docs")
    policy = checked(page)
    assert "http" not in policy
    assert "http" not in page.text
    assert "script-src 'self';" in policy
    assert "connect-src 'self'" in policy


async def test_pages_run_their_own_scripts_only() -> None:
    policy = security_headers("/")["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "script-src" not in policy


@pytest.mark.parametrize("content_type", [
    "text/html", "TEXT/HTML; charset=utf-8", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/xml",
    "application/javascript", "text/javascript", "application/pdf", "", "video/mp4\r\nX: y",
])  # fmt: skip
async def test_what_could_run_is_saved_and_not_shown(content_type: str) -> None:
    assert not shown_inline(content_type)


@pytest.mark.parametrize("content_type", [
    "video/mp4", "audio/mpeg", "image/jpeg", "image/webp", "text/vtt", "application/vnd.apple.mpegurl",
    "application/dash+xml", "video/x-matroska",
])  # fmt: skip
async def test_media_is_shown_in_place(content_type: str) -> None:
    assert shown_inline(content_type)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cross_api(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Api, None]:
    async with serving_api(tmp_path_factory.mktemp("cors") / "data", cors_origins=["https://a.example"]) as api:
        yield api


async def test_preflight_has_them_too(cross_api: Api) -> None:
    headers = {"Origin": "https://a.example", "Access-Control-Request-Method": "PUT"}
    answer = await cross_api.http.options("/v1/uploads/a", headers=headers)
    assert answer.status_code == 200
    checked(answer)
