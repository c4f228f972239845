"""Rates of keys and quotas of tenants: each refusal has its code, stops nobody else, and is over when the cause is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.transcoder.fixtures_api import Api, problem, serving_api
from tests.transcoder.fixtures_auth import Caller, bearer, keyed_api, make_key, still_well, store_of
from transcoder.auth.errors import RateLimited
from transcoder.auth.rate_limit import Rate, TokenBuckets


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_bucket_gives_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(Rate(per_second=2.0, burst=3), clock)
    for _ in range(3):
        buckets.take("a")
    with pytest.raises(RateLimited) as caught:
        buckets.take("a")
    assert caught.value.http_headers == {"Retry-After": "1"}
    clock.now += 0.5
    buckets.take("a")
    with pytest.raises(RateLimited):
        buckets.take("a")
    clock.now += 3600
    for _ in range(3):
        buckets.take("a")
    with pytest.raises(RateLimited):
        buckets.take("a")


def test_bucket_of_one_key_is_not_that_of_another() -> None:
    buckets = TokenBuckets(Rate(per_second=0.001, burst=1), Clock())
    buckets.take("a")
    buckets.take("b")
    with pytest.raises(RateLimited) as caught:
        buckets.take("a")
    assert caught.value.http_headers == {"Retry-After": "1000"}


@pytest.mark.slow
async def test_key_that_asks_too_much_waits_and_others_do_not(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", requests_per_second=0.01, requests_burst=20) as (api, owner):
        other = Caller(api, await make_key(store_of(api), "other"))
        for _ in range(20):
            assert (await owner.request("GET", "/v1/jobs")).status_code == 200
        refused = await owner.request("GET", "/v1/jobs")
        assert problem(refused, 429, "rate_limited")["facts"]["retry_after_seconds"] > 90
        assert int(refused.headers["retry-after"]) > 90
        await still_well(api, other)


@pytest.mark.slow
async def test_guessed_keys_take_nothing_of_a_real_ones_rate(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", requests_per_second=0.01, requests_burst=10) as (api, owner):
        for _ in range(20):
            guess = owner.token[:-8] + "00000000"
            problem(await api.http.get("/v1/jobs", headers=bearer(guess)), 401, "unauthorized")
        assert (await owner.request("GET", "/v1/jobs")).status_code == 200


@pytest.mark.slow
async def test_waiting_jobs_are_limited_for_each_tenant(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", max_queued_jobs=2) as (api, owner):
        other = Caller(api, await make_key(store_of(api), "other"))
        api.executor.gate.clear()
        await owner.submit()
        await api.executor.running.wait()
        waiting = [(await owner.submit()).json()["id"] for _ in range(2)]
        refused = await owner.submit()
        assert problem(refused, 429, "limit_jobs")["facts"] == {"limit": 2}
        assert refused.headers["retry-after"]
        assert (await other.submit()).status_code == 201
        await owner.request("POST", f"/v1/jobs/{waiting[0]}/cancel")
        assert (await owner.submit()).status_code == 201
        problem(await owner.request("POST", f"/v1/jobs/{waiting[0]}/retry"), 429, "limit_jobs")
        api.executor.gate.set()
        await api_is_idle(api, owner)
        await still_well(api, owner)


async def api_is_idle(api: Api, owner: Caller) -> None:
    """Waits for the newest job of the tenant; one slot, so the others have ended before it."""
    newest = (await owner.request("GET", "/v1/jobs?limit=1")).json()["items"][0]["id"]
    async with api.http.stream("GET", f"/v1/jobs/{newest}/events", headers=bearer(owner.token)) as events:
        async for _ in events.aiter_bytes():
            pass


@pytest.mark.slow
async def test_refused_form_leaves_no_upload_behind(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "data", max_queued_jobs=1) as api:
        api.executor.gate.clear()
        await api.submit()
        await api.executor.running.wait()
        await api.submit()
        before = api.stored()
        response = await api.http.post("/v1/jobs", files={"file": ("a.mov", b"x")}, data={"preset": "web-mp4"})
        problem(response, 429, "limit_jobs")
        assert api.stored() == before
        api.executor.gate.set()


@pytest.mark.slow
async def test_jobs_at_once_do_not_pass_the_limit_together(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", max_queued_jobs=5) as (api, owner):
        api.executor.gate.clear()
        upload = await owner.upload()
        await owner.submit(upload)
        await api.executor.running.wait()
        answers = await asyncio.gather(*(owner.submit(upload) for _ in range(20)))
        assert sorted(answer.status_code for answer in answers) == [201] * 5 + [429] * 15
        api.executor.gate.set()


@pytest.mark.slow
async def test_uploads_at_once_are_limited_for_each_tenant(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", max_open_uploads=1) as (api, owner):
        other = Caller(api, await make_key(store_of(api), "other"))
        async with api.service.receive("slow", "default") as sink:
            await sink.write(b"first")
            problem(await owner.request("PUT", "/v1/uploads/a", content=b"x"), 429, "limit_uploads")
            problem(await owner.request("POST", "/v1/uploads", files={"file": ("a", b"x")}), 429, "limit_uploads")
            await other.upload()
        await owner.upload()
        await still_well(api, owner)


@pytest.mark.slow
async def test_bytes_of_uploads_are_limited_for_each_tenant(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", max_stored_bytes=1000) as (api, owner):
        other = Caller(api, await make_key(store_of(api), "other"))
        first = await owner.upload(b"x" * 600)
        refused = await owner.request("PUT", "/v1/uploads/b", content=b"x" * 500)
        assert problem(refused, 507, "limit_storage")["facts"] == {"limit_bytes": 1000}
        assert api.stored() == [first]
        await other.upload(b"x" * 1000)
        problem(await other.request("PUT", "/v1/uploads/b", content=b""), 507, "limit_storage")
        await owner.request("DELETE", f"/v1/uploads/{first}")
        await owner.upload(b"x" * 900)
        await still_well(api, owner)


@pytest.mark.slow
async def test_room_set_aside_for_an_upload_in_pieces_counts(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", max_stored_bytes=1000) as (api, owner):
        tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "600"}
        begun = await owner.request("POST", "/v1/tus", headers=tus)
        assert begun.status_code == 201
        problem(await owner.request("POST", "/v1/tus", headers=tus), 507, "limit_storage")
        problem(await owner.request("PUT", "/v1/uploads/b", content=b"x" * 500), 507, "limit_storage")
        await owner.upload(b"x" * 300)
        await owner.request("DELETE", begun.headers["location"], headers={"Tus-Resumable": "1.0.0"})
        await owner.upload(b"x" * 500)
        await still_well(api, owner)


@pytest.mark.slow
async def test_uploads_at_once_do_not_pass_the_limit_together(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data", max_stored_bytes=1000) as (api, owner):
        puts = (owner.request("PUT", f"/v1/uploads/{n}", content=b"x" * 300) for n in range(10))
        answers = await asyncio.gather(*puts)
        stored = [answer for answer in answers if answer.status_code == 201]
        assert 1 <= len(stored) <= 3
        assert all(answer.status_code in (201, 507) for answer in answers)
        assert len(api.stored()) == len(stored)
