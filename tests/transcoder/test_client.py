"""The Python client against a running service, also where the connection breaks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipelines.errors import BadInput
from tests.transcoder.fixtures_api import BODY, Api
from tests.transcoder.fixtures_auth import keyed_api
from transcoder.client import ApiError, AsyncClient, Client, JobFailed, Unreachable, UploadInterrupted, scripts

SIZE = 3_000_000
Failing = Callable[[httpx2.Request], bool]


class Breaking(httpx2.AsyncHTTPTransport):
    """A line that breaks: before a request is sent, or after it was answered."""

    def __init__(self, before: Failing = lambda request: False, after: Failing = lambda request: False) -> None:
        super().__init__()
        self._before, self._after = before, after

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._before(request):
            raise httpx2.ConnectError("cut", request=request)
        response = await super().handle_async_request(request)
        if self._after(request):
            await response.aread()
            raise httpx2.ReadError("cut", request=request)
        return response


def times(count: int, *methods: str) -> Failing:
    """True for the first `count` requests of these methods."""
    left = [count]

    def failing(request: httpx2.Request) -> bool:
        hit = request.method in methods and left[0] > 0
        left[0] -= hit
        return hit

    return failing


@pytest.fixture
async def client(api: Api) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(f"http://127.0.0.1:{api.port}") as made:
        yield made


@pytest.fixture
def media(tmp_path: Path) -> Path:
    path = tmp_path / "über.mov"
    path.write_bytes(bytes(range(250)) * (SIZE // 250))
    return path


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts, "PIECE_BYTES", 1_000_000)
    monkeypatch.setattr(scripts, "MAX_PAUSE_SECONDS", 0.02)


def spec(upload_id: str) -> dict[str, Any]:
    return {"input": {"upload": upload_id}, "preset": "h264-480p"}


@pytest.mark.slow
async def test_file_goes_in_and_its_result_comes_out(client: AsyncClient, media: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    upload = await client.upload(media, on_bytes=lambda sent, size: told.append((sent, size)))
    assert (upload.name, upload.size) == ("über.mov", SIZE)
    assert upload.sha256 == hashlib.sha256(media.read_bytes()).hexdigest()
    assert told == [(0, SIZE), (1_000_000, SIZE), (2_000_000, SIZE), (SIZE, SIZE)]
    job = await client.wait((await client.submit(spec(upload.id))).id)
    (path,) = await client.download(job, tmp_path / "results")
    assert path.read_bytes() == BODY
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.slow
async def test_plain_client_does_the_same(api: Api, media: Path, tmp_path: Path) -> None:
    def all_of_it() -> Path:
        with Client(f"http://127.0.0.1:{api.port}") as client:
            upload = client.upload(media, name="film.mov")
            job = client.wait(client.submit(spec(upload.id)).id)
            assert [each.id for each in client.jobs(page_size=1)] == [job.id]
            assert "attempt 1 completed" in client.log(job.id)
            assert {preset.name for preset in client.presets()} >= {"web-mp4"}
            assert client.devices()[0]["id"] == "software"
            assert client.probe({"upload": upload.id}).format == "mov"
            (path,) = client.download(job, tmp_path)
            client.delete(job.id)
            with pytest.raises(ApiError) as refusal:
                client.job(job.id)
            assert (refusal.value.status, refusal.value.code) == (404, "job_not_found")
            return path

    assert (await asyncio.to_thread(all_of_it)).read_bytes() == BODY


@pytest.mark.slow
@pytest.mark.parametrize("line", [
    Breaking(before=times(3, "PATCH")), Breaking(after=times(2, "PATCH")), Breaking(before=times(2, "POST", "HEAD")),
], ids=["not sent", "answer lost", "not begun"])  # fmt: skip
async def test_upload_goes_on_where_the_connection_broke(api: Api, media: Path, line: Breaking) -> None:
    async with AsyncClient(f"http://127.0.0.1:{api.port}", transport=line) as client:
        upload = await client.upload(media)
    assert upload.sha256 == hashlib.sha256(media.read_bytes()).hexdigest()


@pytest.mark.slow
async def test_upload_that_was_given_up_can_be_gone_on_with_later(api: Api, client: AsyncClient, media: Path) -> None:
    sent = times(1, "PATCH")
    line = Breaking(before=lambda request: request.method == "PATCH" and not sent(request))
    async with AsyncClient(f"http://127.0.0.1:{api.port}", transport=line) as unlucky:
        with pytest.raises(UploadInterrupted) as stopped:
            await unlucky.upload(media)
    assert stopped.value.offset == 1_000_000
    told: list[int] = []
    upload = await client.upload(media, resume=stopped.value.location, on_bytes=lambda done, size: told.append(done))
    assert told[0] == 1_000_000
    assert upload.sha256 == hashlib.sha256(media.read_bytes()).hexdigest()


@pytest.mark.slow
async def test_lost_answer_makes_no_second_job(api: Api, client: AsyncClient) -> None:
    upload = await api.upload()
    line = Breaking(after=times(2, "POST"))
    async with AsyncClient(f"http://127.0.0.1:{api.port}", transport=line) as unlucky:
        job = await unlucky.submit(spec(str(upload["id"])))
    assert [each.id async for each in client.jobs()] == [job.id]


@pytest.mark.slow
async def test_call_that_may_not_be_repeated_is_not(api: Api) -> None:
    job = await api.submit()
    async with AsyncClient(f"http://127.0.0.1:{api.port}", transport=Breaking(before=times(1, "POST"))) as unlucky:
        with pytest.raises(Unreachable):
            await unlucky.cancel(str(job["id"]))


@pytest.mark.slow
async def test_wait_outlives_a_broken_connection(api: Api) -> None:
    api.executor.gate.clear()
    job = await api.submit()
    line = Breaking(before=lambda request: request.url.path.endswith("/events") and events(request))
    events = times(2, "GET")
    async with AsyncClient(f"http://127.0.0.1:{api.port}", transport=line) as client:
        waiting = asyncio.create_task(client.wait(str(job["id"])))
        await api.executor.running.wait()
        api.executor.gate.set()
        assert (await waiting).status == "completed"


@pytest.mark.slow
async def test_job_without_a_result_is_an_error_with_the_job(api: Api, client: AsyncClient) -> None:
    api.executor.error = BadInput("not media")
    job = await api.submit()
    with pytest.raises(JobFailed, match=r"\[bad_input\] not media") as failed:
        await client.wait(str(job["id"]))
    assert failed.value.job.error is not None


@pytest.mark.slow
async def test_events_tell_how_a_job_goes(api: Api, client: AsyncClient) -> None:
    job = await api.submit()
    kinds = [event.kind async for event in client.events(str(job["id"]))]
    assert kinds[0] == "status"
    assert kinds[-1] == "status"


@pytest.mark.slow
async def test_refusal_says_where_and_why(client: AsyncClient) -> None:
    with pytest.raises(ApiError, match="/outputs/0: ") as refusal:
        await client.submit({"input": {"url": "https://example.org/a"}, "outputs": [{"type": "nothing"}]})
    assert (refusal.value.status, refusal.value.code) == (422, "invalid_request")


@pytest.mark.slow
async def test_service_that_is_busy_is_asked_again(api: Api) -> None:
    answers = iter([503, 429])

    class Busy(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            status = next(answers, None)
            if status is not None:
                return httpx2.Response(status, headers={"Retry-After": "1"}, json={"code": "later"})
            return await super().handle_async_request(request)

    async with AsyncClient(f"http://127.0.0.1:{api.port}", transport=Busy()) as client:
        assert (await client.devices())[0]["id"] == "software"


@pytest.mark.slow
async def test_key_is_sent(tmp_path: Path) -> None:
    async with keyed_api(tmp_path / "data") as (api, owner):
        address = f"http://127.0.0.1:{api.port}"
        async with AsyncClient(address, api_key=owner.token) as client:
            assert (await client.devices())[0]["id"] == "software"
        async with AsyncClient(address) as stranger:
            with pytest.raises(ApiError, match="unauthorized"):
                await stranger.devices()
