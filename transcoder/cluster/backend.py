"""What depends on the database: alone on SQLite, or one node of many on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.devices import Device
from transcoder.attempts.retry import RetryPolicy
from transcoder.cluster.leases import Ended, Leases
from transcoder.cluster.lone_node import LoneNode
from transcoder.cluster.nodes import NodeStore
from transcoder.cluster.relay import Relay
from transcoder.cluster.sites import ClusterSite, Duty, LocalSite, Site
from transcoder.database import Database
from transcoder.engine import Engine, RunAttempt
from transcoder.engine.local import LocalEngine
from transcoder.errors import ServiceUnavailable
from transcoder.news import News
from transcoder.queueing.stranded import Stranded
from transcoder.settings import Settings
from transcoder.storage import Storage
from transcoder.sweep import Sweeper
from transcoder.uploads.resumable import Resumable
from transcoder.webhooks.courier import Courier

WAKE_SECONDS = 1.0
ALIVE_IN_LEASE = 2
"""A node is not given anything after so large a part of a lease without a beat."""


@dataclass(frozen=True)
class Backend:
    engine: Engine
    site: Site
    nodes: NodeStore | LoneNode
    duties: tuple[Duty, ...] = ()
    """What the process does besides."""


@dataclass(frozen=True)
class AfterLoss:
    """Tidies up after attempts of other nodes that were taken away, and tells."""

    storage: Storage
    news: News

    async def __call__(self, ended: Ended) -> None:
        await self.storage.discard_attempt(ended.ticket.job_id, ended.ticket.attempt, ended.ticket.number)
        tell = self.news.job_ended if ended.status.ended else self.news.job_changed
        await tell(ended.ticket.job_id, ended.tenant, attempt=True)


def backend_for(
    settings: Settings,
    database: Database,
    storage: Storage,
    resumable: Resumable,
    sweeper: Sweeper,
    retry: RetryPolicy,
    news: News,
    courier: Courier,
    run: RunAttempt,
    devices: Sequence[Device],
) -> Backend:
    """`devices`: those of this process, in the order of preference. ServiceUnavailable without the libraries for it."""
    tenants, live = settings.max_running_jobs, settings.reserve_live
    if not settings.clustered:
        engine = LocalEngine(database, run, devices, tenant_running=tenants, live_slots=live)
        stranded = Stranded(database, news, engine.devices, engine.wake)
        alone = LocalSite(database, storage, resumable, sweeper, retry)
        node = LoneNode(database, engine, settings.node, settings.role)
        return Backend(engine, alone, node, duties=(stranded.keep_ending,))
    try:
        from transcoder.engine import delivery
        from transcoder.engine.cluster import ClusterEngine
    except ImportError as error:
        raise ServiceUnavailable(f"PostgreSQL needs the extra transcoder[cluster]: {error}") from error
    nodes = NodeStore(database, settings.lease_seconds / ALIVE_IN_LEASE)
    leases = Leases(database, settings.node, settings.lease_seconds, retry)
    site = ClusterSite(database, storage, resumable, nodes, leases, settings.role, delivery.prepare)
    cluster = ClusterEngine(
        database,
        run,
        devices,
        nodes=nodes,
        leases=leases,
        on_ended=AfterLoss(storage, news),
        tenant_running=tenants,
        live_slots=live,
    )
    relay = Relay(news.store, news.events, news.board)
    return Backend(cluster, site, nodes, (relay.keep_relaying, lambda: _keep_waking(courier)))


async def _keep_waking(courier: Courier) -> None:
    """Other nodes write webhooks as well."""
    while True:
        await asyncio.sleep(WAKE_SECONDS)
        courier.wake()
