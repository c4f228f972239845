"""What is to be done once is done by one node, and by another when that one is gone."""

from __future__ import annotations

import asyncio

import pytest

from transcoder.cluster import leader
from transcoder.database import Database


async def test_one_leads_and_another_takes_over(cluster_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "TRY_SECONDS", 0.1)
    working: list[str] = []
    most: list[int] = []

    async def duty(name: str) -> None:
        working.append(name)
        most.append(len(working))
        try:
            await asyncio.Event().wait()
        finally:
            working.remove(name)

    databases = {name: Database(cluster_url) for name in ("one", "two", "three")}
    nodes = {
        name: asyncio.create_task(leader.keep_leading(database, [lambda name=name: duty(name)]))  # type: ignore[misc]
        for name, database in databases.items()
    }
    led: list[str] = []
    async with asyncio.timeout(30):
        for _ in range(3):
            while not working:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)
            (name,) = working
            led.append(name)
            nodes[name].cancel()
            await asyncio.wait({nodes[name]})
            await databases[name].close()
    assert sorted(led) == ["one", "three", "two"]
    assert max(most) == 1


async def test_a_leader_whose_session_is_ended_stops_and_leads_again(
    cluster_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setattr(leader, "TRY_SECONDS", 0.1)
    starts: list[int] = []

    async def duty() -> None:
        starts.append(1)
        await asyncio.Event().wait()

    database = Database(cluster_url)
    leading = asyncio.create_task(leader.keep_leading(database, [duty]))
    async with asyncio.timeout(30):
        while not starts:
            await asyncio.sleep(0.02)
        async with await psycopg.AsyncConnection.connect(cluster_url, autocommit=True) as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            )
        while len(starts) < 2:
            await asyncio.sleep(0.02)
    leading.cancel()
    await asyncio.wait({leading})
    await database.close()
