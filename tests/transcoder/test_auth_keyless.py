"""A service without keys: what its own machine may do, and what a web page on it may not."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from sqlalchemy.exc import OperationalError

from tests.transcoder.fixtures_api import Api, problem, serving_api
from tests.transcoder.fixtures_auth import Caller, bearer, make_key, store_of
from transcoder.auth.authority import CACHE_SECONDS, Authority
from transcoder.auth.hosts import is_loopback
from transcoder.auth.opening import keys_exist, open_keys
from transcoder.auth.store import KeyStore
from transcoder.cli import serve
from transcoder.cli.failures import CommandError
from transcoder.settings import Settings

module_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0",
    "192.168.1.2", "169.254.169.254", "[::]", "[fe80::1]", "2130706433", "0x7f.1", "127.1",
    "user@127.0.0.1", "127.0.0.1/..", "", "a b",
])  # fmt: skip
@module_loop
async def test_name_that_is_not_this_machines_is_refused(shared_api: Api, host: str) -> None:
    for path in ("/v1/jobs", "/docs", "/healthz", "/nothing"):
        problem(await shared_api.http.get(path, headers={"Host": host}), 421, "bad_host")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "127.8.9.10", "localhost", "LOCALHOST:99", "[::1]:8080"])
@module_loop
async def test_loopback_has_many_names(shared_api: Api, host: str) -> None:
    assert (await shared_api.http.get("/v1/jobs", headers={"Host": host})).status_code == 200


@module_loop
async def test_two_host_headers_are_refused(shared_api: Api) -> None:
    reader, writer = await shared_api.connect()
    writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    status = (await reader.read()).split(b" ")[1]
    writer.close()
    assert status in (b"400", b"421")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.1:1", "null", "file://", "http://localhost"]
)
@module_loop
async def test_page_of_another_origin_changes_nothing(shared_api: Api, origin: str) -> None:
    headers = {"Origin": origin}
    for method, path in (
        ("PUT", "/v1/uploads/a"),
        ("POST", "/v1/jobs"),
        ("POST", "/v1/probe"),
        ("DELETE", "/v1/jobs/x"),
    ):
        problem(await shared_api.http.request(method, path, headers=headers), 403, "bad_origin")
    assert shared_api.stored() == []
    read = await shared_api.http.get("/v1/jobs", headers=headers)
    assert "access-control-allow-origin" not in read.headers


@module_loop
async def test_own_page_may_change_things(shared_api: Api) -> None:
    headers = {"Origin": f"http://127.0.0.1:{shared_api.port}"}
    stored = await shared_api.http.put("/v1/uploads/a", content=b"x", headers=headers)
    assert stored.status_code == 201
    assert (await shared_api.http.delete(stored.headers["location"], headers=headers)).status_code == 204


@module_loop
async def test_preflight_gives_no_permission(shared_api: Api) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "DELETE"}
    answer = await shared_api.http.options("/v1/jobs/x", headers=headers)
    assert not answer.is_success
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest_asyncio.fixture
async def open_api(tmp_path: Path) -> AsyncGenerator[Api, None]:
    settings = {"cors_origins": ["https://media.example.org"], "allowed_hosts": ["Media.example"]}
    async with serving_api(tmp_path / "data", **settings) as api:
        yield api


@pytest.mark.slow
async def test_listed_origin_and_host_may(open_api: Api) -> None:
    origin = {"Origin": "https://media.example.org"}
    asked = origin | {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization"}
    preflight = await open_api.http.options("/v1/uploads/a", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://media.example.org"
    stored = await open_api.http.put("/v1/uploads/a", content=b"x", headers=origin)
    assert stored.status_code == 201
    assert stored.headers["access-control-allow-origin"] == "https://media.example.org"
    assert (await open_api.http.get("/v1/jobs", headers={"Host": "media.example"})).status_code == 200
    problem(await open_api.http.get("/v1/jobs", headers={"Host": "evil.example"}), 421, "bad_host")
    evil = await open_api.http.options("/v1/uploads/a", headers=asked | {"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in evil.headers


@pytest.mark.slow
async def test_insecure_service_has_any_name_but_no_foreign_pages(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data", insecure=True) as api:
        headers = {"Host": "media.lan:8080"}
        assert (await api.http.get("/v1/jobs", headers=headers)).status_code == 200
        own = headers | {"Origin": "http://media.lan:8080"}
        assert (await api.http.put("/v1/uploads/a", content=b"x", headers=own)).status_code == 201
        problem(await api.http.put("/v1/uploads/a", headers=headers | {"Origin": "http://b.lan"}), 403, "bad_origin")


@pytest.mark.parametrize("value", ["*", "media.example.org", "https://a/b", "ftp://a"])
def test_origin_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="origin"):
        Settings(cors_origins=[value])


@pytest.mark.slow
async def test_first_key_locks_a_running_service(api: Api) -> None:
    job = await api.ended((await api.submit())["id"])
    token = await make_key(store_of(api))
    authority = api.app.state.gatekeeper.authority
    authority._asked_at -= CACHE_SECONDS
    problem(await api.http.get("/v1/jobs"), 401, "unauthorized")
    assert (await api.http.get(f"/v1/jobs/{job['id']}", headers=bearer(token))).json() == job
    await Caller(api, token).finished_job()


async def test_service_whose_keys_are_all_revoked_stays_locked(tmp_path: Path) -> None:
    async with open_keys(Settings(data_dir=tmp_path)) as keys:
        assert not await keys.any()
        token = await make_key(keys)
        (key,) = await keys.all()
        await keys.revoke(key.id, key.created_at)
        assert await Authority(keys).required()
    async with serving_api(tmp_path) as api:
        problem(await api.http.get("/v1/jobs", headers=bearer(token)), 401, "unauthorized")
        problem(await api.http.get("/v1/jobs"), 401, "unauthorized")


class CountingStore(KeyStore):
    asked = 0

    async def any(self) -> bool:
        type(self).asked += 1
        return await super().any()


async def test_whether_there_are_keys_is_asked_once_a_second(tmp_path: Path) -> None:
    now = [0.0]
    async with open_keys(Settings(data_dir=tmp_path)) as keys:
        authority = Authority(CountingStore(keys._database), lambda: now[0])
        for moment, required in ((0.0, False), (0.5, False), (1.1, False)):
            now[0] = moment
            assert await authority.required() is required
        await make_key(keys)
        now[0] = 1.9
        assert not await authority.required()
        for later in (2.2, 3.5, 99.0):
            now[0] = later
            assert await authority.required()
    assert CountingStore.asked == 3


@pytest.mark.parametrize(("host", "expected"), [
    ("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("127.255.0.9", True),
    ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("media", False), ("", False),
])  # fmt: skip
def test_loopback_is_told_from_the_rest(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_serving_others_needs_keys_or_courage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(data_dir=tmp_path / "data", host="0.0.0.0")
    with pytest.raises(CommandError, match="keys create") as caught:
        serve._check_reach(settings)
    assert caught.value.code == "not_loopback"
    assert not (tmp_path / "data").exists()
    serve._check_reach(settings.model_copy(update={"host": "::1"}))
    assert capsys.readouterr().err == ""
    serve._check_reach(settings.model_copy(update={"insecure": True}))
    assert "warning [insecure]" in capsys.readouterr().err


async def test_key_in_the_database_is_found_before_serving(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    assert not await keys_exist(settings)
    async with open_keys(settings) as keys:
        await make_key(keys)
    assert await keys_exist(settings)


@pytest.mark.slow
async def test_nobody_is_let_in_while_the_database_is_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(self: KeyStore) -> bool:
        raise OperationalError("select", {}, OSError("gone"))

    with monkeypatch.context() as patch:
        patch.setattr(KeyStore, "any", away)
        api.app.state.gatekeeper.authority._asked_at = float("-inf")
        problem(await api.http.get("/v1/jobs"), 503, "service_unavailable")
        problem(await api.http.put("/v1/uploads/a", content=b"x"), 503, "service_unavailable")
        assert (await api.http.get("/healthz")).json() == {"status": "ok"}
    assert api.stored() == []
    await api.ended((await api.submit())["id"])


@pytest.mark.slow
async def test_request_without_a_host_is_refused(api: Api) -> None:
    reader, writer = await api.connect()
    writer.write(b"GET /v1/jobs HTTP/1.0\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert b" 421 " in answer.split(b"\r\n")[0]
    assert isinstance(await api.http.get("/healthz"), httpx2.Response)
