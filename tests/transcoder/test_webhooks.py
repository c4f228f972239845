"""Webhooks end to end: a service, and receivers on loopback that verify what they get."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from standardwebhooks import Webhook, WebhookVerificationError

from pipelines.errors import BadInput
from pipelines.spec import FileJob
from tests.transcoder.stubs import StubExecutor, ended, give_upload, job_for, running_service
from transcoder.errors import Conflict
from transcoder.jobs import Job, JobStatus
from transcoder.network.addresses import BlockedAddress
from transcoder.service import Service
from transcoder.settings import Settings
from transcoder.webhooks.deliveries import Delivery
from transcoder.webhooks.send import check_url

LOOPBACK = {"allowed_networks": ("127.0.0.0/8",)}
OK = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True)
class Got:
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def type(self) -> str:
        return str(json.loads(self.body)["type"])


@dataclass
class Receiver:
    """Answers with `answers` in turn, then with the last for ever; `gate` holds answers back."""

    answers: list[bytes] = field(default_factory=lambda: [OK])
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    got: asyncio.Queue[Got] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.gate.set()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def next(self) -> Got:
        return await asyncio.wait_for(self.got.get(), 10)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
            headers = {name.lower(): value for name, _, value in lines}
            self.got.put_nowait(Got(headers, await reader.readexactly(int(headers["content-length"]))))
            await self.gate.wait()
            writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(*answers: bytes) -> AsyncIterator[Receiver]:
    receiver = Receiver(list(answers) or [OK])
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        receiver.gate.set()
        server.close()


async def submit(service: Service, url: str, *events: str, **changes: Any) -> Job:
    webhook: dict[str, Any] = {"url": url} | ({"events": events} if events else {})
    job, _ = await service.submit(job_for(await give_upload(service), webhook=webhook, **changes))
    return job


async def settled(service: Service, job_id: str, state: str, tries: int | None = None) -> tuple[Delivery, ...]:
    """The job's deliveries once all have that state (and one of them so many tries)."""
    async with asyncio.timeout(10):
        while True:
            found = await service.deliveries.of_job(job_id, "default")
            enough = tries is None or any(len(each.tries) >= tries for each in found)
            if found and enough and all(each.state == state for each in found):
                return found
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_end_of_a_job_is_told_with_a_signature_that_the_library_verifies(tmp_path: Path) -> None:
    async with receiving() as receiver, running_service(tmp_path, **LOOPBACK) as service:
        job = await submit(service, receiver.url("/a?key=1"), metadata={"title": "ü"})
        got = await receiver.next()
        told = Webhook(await service.courier.secret("default")).verify(got.body, got.headers)
        assert told["type"] == "job.completed"
        assert told["data"]["id"] == job.id
        assert told["data"]["status"] == "completed"
        assert told["data"]["metadata"] == {"title": "ü"}
        assert told["data"]["outputs"][0]["files"][0]["path"] == "output.mp4"
        assert "spec" not in told["data"]
        assert "key=1" not in got.body.decode()
        assert got.headers["content-type"] == "application/json"
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_" + "A" * 32).verify(got.body, got.headers)
        (delivery,) = await settled(service, job.id, "delivered")
        assert (delivery.id, delivery.event, delivery.tries[0].status) == (got.id, "job.completed", 204)
        assert (await service.get(job.id)).status is JobStatus.COMPLETED


async def test_secret_of_the_settings_signs_for_every_tenant(tmp_path: Path) -> None:
    secret = "whsec_" + "QUJD" * 10
    async with receiving() as receiver, running_service(tmp_path, webhook_secret=secret, **LOOPBACK) as service:
        await submit(service, receiver.url())
        got = await receiver.next()
        assert Webhook(secret).verify(got.body, got.headers)["type"] == "job.completed"


@pytest.mark.slow
async def test_each_tenant_has_a_secret_of_its_own_that_stays(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        first = await asyncio.gather(*(service.courier.secret("a") for _ in range(5)))
        assert len(set(first)) == 1
        assert await service.courier.secret("b") not in first
    async with running_service(tmp_path) as service:
        assert await service.courier.secret("a") == first[0]


@pytest.mark.slow
async def test_every_event_is_told_that_was_asked_for(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[BadInput("no media", stage="open")])
    async with receiving() as receiver, running_service(tmp_path, executor, **LOOPBACK) as service:
        job = await submit(service, receiver.url(), "job.started", "job.failed", "job.completed")
        assert {(await receiver.next()).type for _ in range(2)} == {"job.started", "job.failed"}
        assert (await service.get(job.id)).status is JobStatus.FAILED
        # run again by hand: its start and its end are news again
        await service.retry(job.id)
        assert {(await receiver.next()).type for _ in range(2)} == {"job.started", "job.completed"}
        told = await settled(service, job.id, "delivered")
        assert len({each.id for each in told}) == 4


@pytest.mark.slow
async def test_cancelling_tells_whether_the_job_waited_or_ran(tmp_path: Path) -> None:
    executor = StubExecutor(gate=asyncio.Event())
    async with receiving() as receiver, running_service(tmp_path, executor, slots=1, **LOOPBACK) as service:
        running = await submit(service, receiver.url())
        await asyncio.wait_for(executor.entered.wait(), 10)
        waiting = await submit(service, receiver.url())
        await service.cancel(waiting.id)
        await service.cancel(running.id)
        got = [json.loads((await receiver.next()).body) for _ in range(2)]
        assert {each["data"]["id"] for each in got} == {running.id, waiting.id}
        assert {each["type"] for each in got} == {"job.cancelled"}


async def test_job_without_a_webhook_tells_nobody(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        job, _ = await service.submit(job_for(await give_upload(service)))
        await ended(service, job.id)
        assert await service.deliveries.of_job(job.id, "default") == ()


@pytest.mark.slow
async def test_attempt_that_is_tried_again_is_no_second_start(tmp_path: Path) -> None:
    executor = StubExecutor(failures=[BadInput("once", stage="open")])
    executor.failures[0].retryable = True  # type: ignore[misc]
    async with receiving() as receiver, running_service(tmp_path, executor, **LOOPBACK) as service:
        job = await submit(service, receiver.url(), "job.started", "job.completed", "job.failed")
        await ended(service, job.id)
        told = await settled(service, job.id, "delivered")
        assert executor.runs == 2
        assert sorted(each.event for each in told) == ["job.completed", "job.started"]


@pytest.mark.slow
async def test_what_was_pending_is_delivered_by_the_next_service(tmp_path: Path) -> None:
    async with receiving(b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", OK) as receiver:
        async with running_service(tmp_path, webhook_retry_seconds=(0.2,), **LOOPBACK) as service:
            job = await submit(service, receiver.url())
            first = await receiver.next()
        async with running_service(tmp_path, webhook_retry_seconds=(0.2,), **LOOPBACK) as service:
            second = await receiver.next()
            await settled(service, job.id, "delivered")
        assert (first.id, first.body) == (second.id, second.body)


@pytest.mark.slow
async def test_slow_receiver_delays_neither_jobs_nor_other_receivers(tmp_path: Path) -> None:
    async with receiving() as slow, receiving() as quick, running_service(tmp_path, **LOOPBACK) as service:
        slow.gate.clear()
        held = [await submit(service, slow.url()) for _ in range(12)]
        job = await submit(service, quick.url())
        assert json.loads((await quick.next()).body)["data"]["id"] == job.id
        for each in held:
            assert (await ended(service, each.id)).status is JobStatus.COMPLETED
        # two at a time to one host
        assert slow.got.qsize() == 2
        slow.gate.set()
        assert {json.loads((await slow.next()).body)["data"]["id"] for _ in held} == {each.id for each in held}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://[::1]:8080/", "http://[::ffff:127.0.0.1]/", "http://2130706433/", "http://0x7f.1/",
        "http://169.254.169.254/latest", "http://10.0.0.1/", "http://0/", "ftp://example.org/", "http://u:p@example.org/",
        "http://example.org/\r\nX: 1", "//example.org/", "http://",
    ],
)  # fmt: skip
def test_url_that_leads_inside_is_refused(url: str) -> None:
    with pytest.raises(BlockedAddress):
        check_url(url, ())


async def test_job_with_a_webhook_that_leads_inside_is_refused(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        upload = await give_upload(service)
        with pytest.raises(BlockedAddress):
            await service.submit(job_for(upload, webhook={"url": "http://[::ffff:127.0.0.1]/"}))
        assert (await service.list()).items == ()
        job, _ = await service.submit(job_for(upload))
        assert (await ended(service, job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_name_that_leads_inside_is_never_connected_to(tmp_path: Path) -> None:
    async with receiving() as receiver, running_service(tmp_path) as service:
        job = await submit(service, f"http://localhost:{receiver.port}/")
        (delivery,) = await settled(service, job.id, "failed")
        assert [each.error for each in delivery.tries] == ["blocked_address"]
        assert receiver.got.empty()
        assert (await service.get(job.id)).status is JobStatus.COMPLETED


@pytest.mark.slow
async def test_deliveries_survive_the_job_and_stay_with_their_tenant(tmp_path: Path) -> None:
    async with receiving() as receiver, running_service(tmp_path, **LOOPBACK) as service:
        receiver.gate.clear()
        job = await submit(service, receiver.url())
        await ended(service, job.id)
        await receiver.next()
        await service.delete(job.id)
        receiver.gate.set()
        await settled(service, job.id, "delivered")
        assert await service.deliveries.of_job(job.id, "someone else") == ()


@pytest.mark.parametrize(
    "webhook",
    [{}, {"url": ""}, {"url": "http://a/", "events": []}, {"url": "http://a/", "events": ["job.queued"]},
     {"url": "http://a/", "events": ["job.failed", "job.failed"]}, {"url": "http://a/", "secret": "x"}],
)  # fmt: skip
def test_webhook_that_makes_no_sense_is_refused(webhook: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FileJob.model_validate({"input": {"upload": "a"}, "preset": "p", "webhook": webhook})


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_short", "whsec_*" * 9, "QUJD" * 10])
def test_secret_that_receivers_could_not_use_is_refused(secret: str) -> None:
    with pytest.raises(ValidationError, match="webhook_secret"):
        Settings(webhook_secret=secret)  # type: ignore[arg-type]


@pytest.mark.slow
async def test_while_a_secret_is_changed_both_verify_and_then_only_the_new_one(tmp_path: Path) -> None:
    async with receiving() as receiver, running_service(tmp_path, **LOOPBACK) as service:
        old = await service.courier.secret("default")
        changed = await service.courier.rotate("default", 3600)
        assert changed.previous == old
        assert changed.secret != old
        await submit(service, receiver.url())
        got = await receiver.next()
        for secret in (old, changed.secret):
            assert Webhook(secret).verify(got.body, got.headers)["type"] == "job.completed"
        at_once = await service.courier.rotate("default", 0)
        assert at_once.previous is None
        await submit(service, receiver.url())
        got = await receiver.next()
        assert Webhook(at_once.secret).verify(got.body, got.headers)["type"] == "job.completed"
        for secret in (old, changed.secret):
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(got.body, got.headers)


async def test_changing_one_tenants_secret_leaves_the_others(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        before = await service.courier.secret("b")
        await service.courier.rotate("a", 60)
        assert await service.courier.secret("b") == before


async def test_the_secret_of_the_settings_is_not_changed_by_a_call(tmp_path: Path) -> None:
    async with running_service(tmp_path, webhook_secret="whsec_" + "QUJD" * 10) as service:
        with pytest.raises(Conflict):
            await service.courier.rotate("default", 60)
