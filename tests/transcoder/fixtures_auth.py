"""API keys for tests, and what is done with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.transcoder.fixtures_api import SPEC, Api, serving_api
from transcoder.auth.keys import ApiKey, Token, new_token
from transcoder.auth.opening import open_keys
from transcoder.auth.scopes import Scope
from transcoder.auth.store import KeyStore
from transcoder.clock import utc_now
from transcoder.settings import Settings

ALL = tuple(Scope)


def key_of(token: Token, tenant: str, scopes: tuple[Scope, ...], **changes: Any) -> ApiKey:
    return ApiKey(id=token.key_id, tenant=tenant, name="a test's", scopes=scopes, created_at=utc_now(), **changes)


async def make_key(keys: KeyStore, tenant: str = "default", *scopes: Scope, **changes: Any) -> str:
    """A new key's token."""
    token = new_token()
    await keys.add(key_of(token, tenant, scopes or ALL, **changes), token)
    return str(token)


def store_of(api: Api) -> KeyStore:
    return KeyStore(api.service.database)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True)
class Caller:
    """One key's view of the API."""

    api: Api
    token: str

    async def request(self, method: str, path: str, **request: Any) -> httpx2.Response:
        headers = {**bearer(self.token), **request.pop("headers", {})}
        return await self.api.http.request(method, path, headers=headers, **request)

    async def upload(self, content: bytes = b"media") -> str:
        response = await self.request("PUT", "/v1/uploads/clip.mov", content=content)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    async def submit(self, upload: str | None = None, **spec: Any) -> httpx2.Response:
        body = {"input": {"upload": upload or await self.upload()}, **SPEC, **spec}
        return await self.request("POST", "/v1/jobs", json=body)

    async def finished_job(self) -> str:
        """A job that ran to its end, as every service must still be able to after whatever was tried."""
        response = await self.submit()
        assert response.status_code == 201, response.text
        job_id = str(response.json()["id"])
        async with self.api.http.stream("GET", f"/v1/jobs/{job_id}/events", headers=bearer(self.token)) as events:
            async for _ in events.aiter_bytes():
                pass
        job = (await self.request("GET", f"/v1/jobs/{job_id}")).json()
        assert job["status"] == "completed", job
        return job_id


@asynccontextmanager
async def keyed_api(data_dir: Path, **settings: Any) -> AsyncGenerator[tuple[Api, Caller], None]:
    """A service that has a key from its start, and the one who has that key: tenant `default`, all scopes."""
    async with open_keys(Settings(data_dir=data_dir)) as keys:
        token = await make_key(keys)
    async with serving_api(data_dir, **settings) as api:
        yield api, Caller(api, token)


async def still_well(api: Api, caller: Caller) -> None:
    """The API answers, and the next job succeeds."""
    assert (await api.http.get("/healthz")).status_code == 200
    await caller.finished_job()
