"""Tries, pauses and limits of deliveries: a courier with a clock that the tests set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from sqlalchemy import insert

from tests.transcoder.fixtures_peers import Answer, Peer, says, serving
from transcoder.database import Database
from transcoder.tables import webhooks
from transcoder.webhooks.courier import AT_ONCE, TO_ONE_TENANT, Courier, CourierSettings
from transcoder.webhooks.deliveries import Delivery, DeliveryStore
from transcoder.webhooks.schedule import Again, Answered, Ended, Unanswered, decide
from transcoder.webhooks.send import REPLY_BYTES, Sender

START = datetime(2026, 1, 1, tzinfo=UTC)
PAUSES = (5.0, 30.0, 3600.0)
OK = says("HTTP/1.1 200 OK\nContent-Length: 2\nConnection: close", b"ok")
BROKEN = says("HTTP/1.1 500 No\nContent-Length: 0\nConnection: close")


@dataclass
class Post:
    """A courier whose clock stands still unless told."""

    store: DeliveryStore
    courier: Courier
    database: Database
    clock: list[datetime]
    numbers: list[int] = field(default_factory=list)

    async def put(self, *urls: str, tenant: str = "a") -> None:
        rows = [
            {
                "id": f"msg_{len(self.numbers) + number}",
                "tenant": tenant,
                "job_id": "job",
                "event": "job.completed",
                "url": url,
                "host": url.split("/")[2],
                "body": "{}",
                "state": "pending",
                "tries": 0,
                "created_at": START,
                "due_at": START,
            }
            for number, url in enumerate(urls)
        ]
        self.numbers += range(len(rows))
        async with self.database.write() as connection:
            await connection.execute(insert(webhooks), rows)

    async def turn(self, after_seconds: float = 0.0) -> float:
        """Lets time pass, delivers what is due then, and tells the seconds until the next look."""
        self.clock[0] += timedelta(seconds=after_seconds)
        await self.courier.dispatch()
        await asyncio.wait_for(self.courier.idle(), 10)
        return await self.courier.dispatch()

    async def log(self, tenant: str = "a") -> tuple[Delivery, ...]:
        return await self.store.of_job("job", tenant)


@asynccontextmanager
async def posting(
    folder: Path, *, seconds: float = 5.0, networks: tuple[str, ...] = ("127.0.0.0/8",)
) -> AsyncIterator[Post]:
    database = Database(f"sqlite+aiosqlite:///{folder / 'post.db'}")
    await database.migrate()
    clock = [START]
    store = DeliveryStore(database)
    sender = Sender(tuple(ip_network(network) for network in networks), seconds)
    courier = Courier(store, sender, CourierSettings(PAUSES, 86_400, None), lambda: clock[0])
    try:
        yield Post(store, courier, database, clock)
        await asyncio.wait_for(courier.idle(), 10)
    finally:
        await database.close()


def in_turn(*answers: Answer) -> Answer:
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(reader, writer, path)

    return answer


def ids(peer: Peer) -> set[str]:
    return {line for head in peer.heads for line in head.split("\r\n") if line.lower().startswith("webhook-id")}


async def test_failures_are_followed_by_longer_pauses_and_the_same_id(tmp_path: Path) -> None:
    async with serving(in_turn(BROKEN, BROKEN, OK)) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        assert await post.turn() == 5.0
        assert await post.turn(4.9) == pytest.approx(0.1)
        assert peer.accepted == 1
        assert await post.turn(0.1) == 30.0
        await post.turn(30.0)
        (delivery,) = await post.log()
        assert (delivery.state, [each.status for each in delivery.tries]) == ("delivered", [500, 500, 200])
        assert [each.error for each in delivery.tries] == ["refused", "refused", None]
        assert len(ids(peer)) == 1
        await post.turn(86_000)
        assert peer.accepted == 3


async def test_webhook_is_given_up_after_the_last_pause(tmp_path: Path) -> None:
    async with serving(BROKEN) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        for pause in (0, *PAUSES, 86_000):
            await post.turn(pause)
        (delivery,) = await post.log()
        assert (delivery.state, len(delivery.tries), delivery.next_try_at) == ("failed", len(PAUSES) + 1, None)


@pytest.mark.slow
async def test_redirect_is_not_followed(tmp_path: Path) -> None:
    async with serving(OK) as inside, posting(tmp_path) as post:
        redirect = says(f"HTTP/1.1 302 Found\nLocation: {inside.url()}\nContent-Length: 0\nConnection: close")
        async with serving(redirect) as peer:
            await post.put(peer.url())
            await post.turn()
            assert (peer.accepted, inside.accepted) == (1, 0)
            assert (await post.log())[0].tries[0].status == 302


async def test_reply_of_ten_gigabytes_is_cut_off(tmp_path: Path) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        while True:
            writer.write(bytes(1 << 16))
            await writer.drain()
            sent += 1 << 16

    async with serving(endless) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        await post.turn()
        assert (await post.log())[0].state == "delivered"
        await asyncio.wait_for(peer.left.wait(), 10)
        # what was read, and what lay in the sockets' buffers
        assert sent < REPLY_BYTES + (32 << 20)


async def test_silent_receiver_is_let_go(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        await reader.read()

    async with serving(silent) as peer, posting(tmp_path, seconds=0.2) as post:
        await post.put(peer.url())
        await post.turn()
        assert (await post.log())[0].tries[0].error == "timeout"
        await asyncio.wait_for(peer.left.wait(), 10)


async def test_receiver_that_trickles_its_head_is_let_go(tmp_path: Path) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(trickle) as peer, posting(tmp_path, seconds=0.3) as post:
        await post.put(peer.url())
        await post.turn()
        assert (await post.log())[0].tries[0].error == "timeout"


@pytest.mark.parametrize(
    ("answer", "error"),
    [(says("SSH-2.0-x"), "broken"), (says("HTTP/1.1 200 OK\nContent-Length: x"), "broken"), (says(""), "broken")],
    ids=["another protocol", "bad length", "empty"],
)
async def test_receiver_that_speaks_something_else_counts_as_broken(tmp_path: Path, answer: Answer, error: str) -> None:
    async with serving(answer) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        await post.turn()
        (delivery,) = await post.log()
        assert (delivery.state, delivery.tries[0].error) == ("pending", error)


async def test_receiver_that_is_gone_is_left_alone(tmp_path: Path) -> None:
    async with serving(says("HTTP/1.1 410 Gone\nContent-Length: 0")) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        await post.turn()
        assert (await post.log())[0].state == "failed"


async def test_loopback_is_refused_unless_allowed(tmp_path: Path) -> None:
    async with serving(OK) as peer, posting(tmp_path, networks=()) as post:
        await post.put(peer.url(), peer.url(host="localhost"))
        await post.turn()
        assert {(each.state, each.tries[0].error) for each in await post.log()} == {("failed", "blocked_address")}
        assert peer.accepted == 0


async def test_closed_port_is_tried_again(tmp_path: Path) -> None:
    async with serving(OK) as peer:
        url = peer.url()
    async with posting(tmp_path) as post:
        await post.put(url)
        assert await post.turn() == 5.0
        assert (await post.log())[0].tries[0].error == "connection"


@pytest.mark.slow
async def test_tenants_and_hosts_take_turns(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> None:
        await gate.wait()
        await OK(reader, writer, path)

    async with serving(held) as slow, serving(OK) as quick, posting(tmp_path) as post:
        await post.put(*(slow.url(f"/{n}") for n in range(400)))
        # names without number for one slow machine: one tenant still leaves room for others
        await post.put(*(slow.url(host=f"127.0.0.{n}") for n in range(1, 100)))
        await post.put(quick.url(), tenant="b")
        await post.courier.dispatch()
        async with asyncio.timeout(10):
            while not (await post.log("b"))[0].finished_at:
                await asyncio.sleep(0.01)
        assert slow.accepted <= min(TO_ONE_TENANT, AT_ONCE)
        gate.set()


async def test_clock_that_was_set_back_holds_nothing_up(tmp_path: Path) -> None:
    async with serving(in_turn(BROKEN, OK)) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        await post.turn()
        await post.turn(-86_400)
        assert (await post.log())[0].state == "delivered"


async def test_log_is_forgotten_some_time_after_the_end(tmp_path: Path) -> None:
    async with serving(OK) as peer, posting(tmp_path) as post:
        await post.put(peer.url())
        await post.turn()
        assert len(await post.log()) == 1
        await post.turn(2 * 86_400)
        assert await post.log() == ()


def test_decision_follows_from_the_outcome_and_the_number_of_tries() -> None:
    assert decide(Answered(204), 1, PAUSES) == Ended(delivered=True)
    assert decide(Answered(410), 1, PAUSES) == Ended(delivered=False)
    assert decide(Unanswered("blocked_address", final=True), 1, PAUSES) == Ended(delivered=False)
    assert [decide(Answered(503), tries, PAUSES) for tries in (1, 2, 3)] == [Again(pause) for pause in PAUSES]
    assert decide(Unanswered("timeout"), 4, PAUSES) == Ended(delivered=False)
    assert decide(Unanswered("timeout"), 1, ()) == Ended(delivered=False)
