"""Fair shares between queues: slot-seconds divided by weights, for software and for hardware slots apart.

A queue's *use* rises while its tasks run; the slot that is free goes to the queue with the least use. A running task
counts as long as it has run, and at least as long as tasks of its queue take on the average, so that a queue does not
get all slots before its first task has ended. What is lent stays so: a queue that had nothing to run begins level with
those that had (start-time fair queueing; Goyal, Vin, Cheng 1996).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from transcoder.queueing.queues import Queue, queue_from
from transcoder.tables import queue_shares, queues, tasks

Pool = Literal["software", "hardware"]

FIRST_SECONDS = 1.0
"""What a task is taken to last in a queue of which nothing is known."""

MEMORY = 0.8
"""How much of the average the next task leaves as it is."""


@dataclass(frozen=True)
class Account:
    """A queue's row in a pool. `used` is divided by weights already: a new weight changes the future only."""

    queue: str
    pool: Pool
    used: float = 0.0
    mean_seconds: float | None = None
    active: bool = False
    stored: bool = False
    """Whether the row is there."""

    @property
    def expected_seconds(self) -> float:
        return FIRST_SECONDS if self.mean_seconds is None else self.mean_seconds


@dataclass(frozen=True)
class Running:
    """A task that runs. `held`: its slots."""

    queue: str
    tenant: str
    pool: Pool
    held: int
    since: datetime


def live_use(account: Account, weight: float, running: Iterable[Running], now: datetime) -> float:
    """Use of a queue with what its running tasks have come to. `running` is of this account only."""
    lasting = (max(account.expected_seconds, (now - each.since).total_seconds()) * each.held for each in running)
    return account.used + sum(lasting) / weight


def levelled(
    accounts: Mapping[str, Account], live: Mapping[str, float], wanting: Collection[str], blocked: Collection[str]
) -> dict[str, Account]:
    """Accounts of one pool as they are before slots are given away.

    `wanting`: queues that run or may start something; `blocked`: those of them that may start nothing (paused, at a
    limit). Who begins to want something, and who is blocked, is put level with the least use of the others.
    """
    steady = [live[name] for name in wanting if name not in blocked and accounts[name].active]
    level = min(steady) if steady else max((live[name] for name in accounts), default=0.0)
    result = {}
    for name, account in accounts.items():
        late = name in wanting and (not account.active or name in blocked)
        lift = max(0.0, level - live[name]) if late else 0.0
        result[name] = replace(account, used=account.used + lift, active=name in wanting)
    return result


Accounts = dict[Pool, dict[str, Account]]

_SHARE = [column.label(f"share_{column.name}") for column in queue_shares.c]
_QUEUE = tuple(column.name for column in queues.c)
_QUEUES = (
    select(queues, *_SHARE)
    .join(queue_shares, queue_shares.c.queue == queues.c.name, isouter=True)
    .order_by(queues.c.name)
)


async def read_accounts(connection: AsyncConnection) -> tuple[dict[str, Queue], Accounts]:
    """All queues, and their accounts by pool; new ones where there is no row."""
    rows = (await connection.execute(_QUEUES)).mappings().all()
    found = {row["name"]: queue_from({name: row[name] for name in _QUEUE}) for row in rows}
    pools: tuple[Pool, ...] = ("software", "hardware")
    accounts: Accounts = {pool: {name: Account(name, pool) for name in found} for pool in pools}
    for row in rows:
        if row["share_queue"] is not None:
            values = {column.name: row[f"share_{column.name}"] for column in queue_shares.c}
            accounts[row["share_pool"]][row["name"]] = Account(**values, stored=True)
    return found, accounts


async def save_accounts(
    connection: AsyncConnection, before: Mapping[str, Account], after: Mapping[str, Account]
) -> None:
    """Writes what changed."""
    changed = [account for name, account in after.items() if account != before[name]]
    fresh = [_values(account) for account in changed if not account.stored]
    if fresh:
        await connection.execute(insert(queue_shares), fresh)
    known = [
        {"its_queue": account.queue, "its_pool": account.pool, "its_used": account.used, "its_active": account.active}
        for account in changed
        if account.stored
    ]
    if known:
        await connection.execute(
            update(queue_shares)
            .where(queue_shares.c.queue == bindparam("its_queue"), queue_shares.c.pool == bindparam("its_pool"))
            .values(used=bindparam("its_used"), active=bindparam("its_active")),
            known,
        )


def _values(account: Account) -> dict[str, object]:
    return {"queue": account.queue, "pool": account.pool, "used": account.used, "active": account.active}


async def read_running(connection: AsyncConnection) -> list[Running]:
    """All tasks that run, on all nodes."""
    query = select(tasks.c.queue, tasks.c.tenant, tasks.c.pool, tasks.c.held, tasks.c.claimed_at)
    rows = await connection.execute(query.where(tasks.c.state == "running", tasks.c.pool.is_not(None)))
    return [Running(row.queue, row.tenant, row.pool, row.held, row.claimed_at) for row in rows]


async def charge(connection: AsyncConnection, task_id: str, now: datetime) -> None:
    """Books what a task that runs has taken. In the transaction that ends its attempt, before its state changes."""
    found = await connection.execute(
        select(tasks.c.queue, tasks.c.pool, tasks.c.held, tasks.c.claimed_at, queues.c.weight)
        .join(queues, queues.c.name == tasks.c.queue)
        .where(tasks.c.id == task_id, tasks.c.pool.is_not(None))
    )
    row = found.one_or_none()
    if row is None:
        return
    seconds = max(0.0, (now - row.claimed_at).total_seconds())
    share = queue_shares.c
    mine = (share.queue == row.queue, share.pool == row.pool)
    mean = (await connection.execute(select(share.mean_seconds).where(*mine))).scalar()
    await connection.execute(
        update(queue_shares)
        .where(*mine)
        .values(
            used=share.used + seconds * row.held / row.weight,
            mean_seconds=seconds if mean is None else MEMORY * mean + (1 - MEMORY) * seconds,
        )
    )
