"""Keys: what is kept of them, how they are made and revoked beside a running service, how clients send them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st

from tests.transcoder.fixtures_api import problem, serving_api
from tests.transcoder.fixtures_auth import Caller, bearer, key_of, keyed_api, make_key, still_well, store_of
from transcoder.__main__ import main
from transcoder.api.revocation import Watched
from transcoder.auth.authority import Authority
from transcoder.auth.errors import Unauthorized
from transcoder.auth.keys import Token, new_token, parse_token
from transcoder.auth.opening import open_keys
from transcoder.auth.scopes import Scope
from transcoder.auth.tables import api_keys
from transcoder.cli.client import Client
from transcoder.cli.failures import CommandError
from transcoder.settings import Settings


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    return int(caught.value.code or 0)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRANSCODER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=32, max_size=32))
def test_token_is_read_as_it_was_written(key_id: bytes, secret: bytes) -> None:
    token = Token(key_id.hex(), secret.hex())
    assert parse_token(str(token)) == token
    assert token.matches(token.digest())


@given(st.text(max_size=120))
def test_other_text_is_no_token(text: str) -> None:
    assert parse_token(text) is None
    assert parse_token(f"{new_token()}{text or ' '}") is None


def test_secret_is_not_shown_by_accident() -> None:
    token = new_token()
    assert token.secret not in repr(token)
    assert not Token(token.key_id, "0" * 64).matches(token.digest())


@pytest.mark.slow
def test_key_is_made_listed_and_revoked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keys", "create", "--name", "first", "--tenant", "acme") == 0
    token = capsys.readouterr().out.strip()
    parsed = parse_token(token)
    assert parsed is not None
    assert run("keys", "list", "--json") == 0
    (key,) = json.loads(capsys.readouterr().out)
    assert (key["id"], key["tenant"], key["name"]) == (parsed.key_id, "acme", "first")
    assert (key["scopes"], key["queues"], key["expires_at"], key["last_used_at"]) == (
        ["submit", "read"],
        None,
        None,
        None,
    )
    assert run("keys", "list") == 0
    assert "valid" in capsys.readouterr().out
    assert run("keys", "revoke", parsed.key_id) == 0
    assert run("keys", "list") == 0
    assert "revoked" in capsys.readouterr().out
    assert run("keys", "revoke", "nothing") == 2
    assert "error [key_not_found]:" in capsys.readouterr().err


def test_key_has_what_was_asked_for(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--scope", "admin", "--scope", "read", "--queue", "night", "--queue", "day", "--expires-days", 3, "--json")
    assert run("keys", "create", "--name", "n", *words) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["scopes"] == ["read", "admin"]
    assert made["queues"] == ["night", "day"]
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=2.99) < left <= timedelta(days=3)
    assert parse_token(made["token"]) is not None


@pytest.mark.parametrize("tenant", ["", "a b", "../x", "-a", "ü", "x" * 101])
def test_tenant_of_odd_characters_is_refused(data: Path, tenant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keys", "create", "--name", "n", "--tenant", tenant) == 2
    assert "error [invalid_request]:" in capsys.readouterr().err
    assert not data.exists()


def test_secret_is_nowhere_on_the_disk(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keys", "create", "--name", "first") == 0
    token = parse_token(capsys.readouterr().out.strip())
    assert token is not None
    kept = b"".join(file.read_bytes() for file in data.rglob("*") if file.is_file())
    assert token.key_id.encode() in kept
    assert token.digest().encode() in kept
    assert token.secret.encode() not in kept


@pytest.mark.slow
async def test_key_made_or_revoked_beside_the_service_counts_within_a_second(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data") as (api, owner), open_keys(Settings(data_dir=tmp_path / "data")) as keys:
        token = await make_key(keys, "late")
        caller = Caller(api, token)
        assert (await caller.request("GET", "/v1/jobs")).status_code == 200
        parsed = parse_token(token)
        assert parsed is not None
        await keys.revoke(parsed.key_id, datetime.now(UTC))
        async with asyncio.timeout(2):
            while (await caller.request("GET", "/v1/jobs")).status_code == 200:
                await asyncio.sleep(0.05)
        problem(await caller.request("GET", "/v1/jobs"), 401, "unauthorized")
        await owner.finished_job()


async def test_use_of_a_key_is_noted_and_not_with_every_call(tmp_path: Path) -> None:
    async with open_keys(Settings(data_dir=tmp_path)) as keys:
        token = await make_key(keys)
        authority, noted = Authority(keys), []
        for _ in range(3):
            await authority.authenticate(token)
            (key,) = await keys.all()
            noted.append(key.last_used_at)
        assert noted[0] is not None
        assert noted == noted[:1] * 3


async def test_key_expires_while_it_is_remembered(tmp_path: Path) -> None:
    async with open_keys(Settings(data_dir=tmp_path)) as keys:
        moments = [datetime.now(UTC)]
        token = await make_key(keys, "t", expires_at=moments[0] + timedelta(seconds=1))
        authority = Authority(keys, clock=lambda: 0.0, now=lambda: moments[-1])
        assert (await authority.authenticate(token)).tenant == "t"
        moments.append(moments[0] + timedelta(seconds=1))
        with pytest.raises(Unauthorized, match="expired"):
            await authority.authenticate(token)


async def test_guesses_are_not_remembered(tmp_path: Path) -> None:
    async with open_keys(Settings(data_dir=tmp_path)) as keys:
        authority = Authority(keys)
        for _ in range(20):
            with pytest.raises(Unauthorized):
                await authority.authenticate(str(new_token()))
        assert authority._known == {}


@pytest.mark.slow
async def test_both_headers_are_taken_and_case_does_not_matter(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data") as (api, owner):
        for headers in (
            bearer(owner.token),
            {"authorization": f"bearer  {owner.token}"},
            {"X-API-KEY": owner.token},
            {"Authorization": "Basic eDp5", "X-Api-Key": owner.token},
        ):
            assert (await api.http.get("/v1/jobs", headers=headers)).status_code == 200, headers
        for headers in ({"Authorization": owner.token}, {"Authorization": f"Bearer {owner.token}x"}, {"X-Api-Key": ""}):
            problem(await api.http.get("/v1/jobs", headers=headers), 401, "unauthorized")
        problem(await api.http.get(f"/v1/jobs?api_key={owner.token}"), 401, "unauthorized")


@pytest.mark.slow
async def test_client_sends_the_key_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with keyed_api(tmp_path / "data") as (api, owner):
        job_id = await owner.finished_job()
        server = f"http://127.0.0.1:{api.port}"

        def ask(key: str | None) -> str:
            with Client(server, key) as client:
                return client.job(job_id).id

        assert await asyncio.to_thread(ask, owner.token) == job_id
        with pytest.raises(CommandError) as caught:
            await asyncio.to_thread(ask, None)
        assert caught.value.code == "unauthorized"
        monkeypatch.setenv("TRANSCODER_API_KEY", owner.token)
        assert await asyncio.to_thread(run, "jobs", "show", job_id, "--server", server) == 0
        monkeypatch.setenv("TRANSCODER_API_KEY", "ü\n")
        assert await asyncio.to_thread(run, "jobs", "show", job_id, "--server", server) == 2


async def test_tables_are_as_the_migrations_make_them(tmp_path: Path) -> None:
    async with open_keys(Settings(data_dir=tmp_path)) as keys, keys._database.read() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), api_keys.metadata)
        )
    assert differences == []


@pytest.mark.slow
async def test_document_says_which_calls_need_a_key(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data") as api:
        document = (await api.http.get("/openapi.json")).json()
    assert set(document["components"]["securitySchemes"]) == {"key", "header"}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert (
                ("security" in operation) is ("401" in operation["responses"]) is path.startswith(("/v1/", "/metrics"))
            )


def test_admin_includes_the_other_scopes() -> None:
    from transcoder.auth.principal import Principal

    admin = Principal.of_key(key_of(new_token(), "t", (Scope.ADMIN,)))
    for scope in Scope:
        admin.require(scope)


@pytest.mark.slow
async def test_answer_that_goes_on_ends_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "check_seconds", 0.05)
    async with keyed_api(tmp_path / "data") as (api, owner):
        token = await make_key(store_of(api))
        parsed = parse_token(token)
        assert parsed is not None
        async with (
            api.http.stream("GET", "/v1/events", headers=bearer(token)) as ending,
            api.http.stream("GET", "/v1/events", headers=bearer(owner.token)) as staying,
        ):
            followed = ending.aiter_bytes()
            assert b"event: open" in await anext(followed)
            await store_of(api).revoke(parsed.key_id, datetime.now(UTC))
            with contextlib.suppress(httpx2.RemoteProtocolError):
                async with asyncio.timeout(10):
                    async for _ in followed:
                        pass
            others = staying.aiter_bytes()
            assert b"event: open" in await anext(others)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await anext(others)
        await still_well(api, owner)
