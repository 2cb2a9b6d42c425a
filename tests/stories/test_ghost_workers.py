"""Heartbeats of workers that do not exist: they take no more than their share, and who is there is
still watched.
"""

import json

from nats.aio.client import Client

from tests.support.router_streams import AlertRecorder
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import read_metric
from tests.support.waiting import until

BEATS = "caf.worker.heartbeat.v1"
GHOSTS, HOUR_MS = 10_000, 3_600_000


async def test_ten_thousand_ghosts_keep_no_worker_of_a_tenant_out(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """They promise one heartbeat an hour, each for a tenant of its own without any request. A
    worker of a tenant that is served comes after them, falls silent, and the operators are told.
    """
    alarms = await AlertRecorder.heard_on(nc)
    async with a_router(settings_for(nats_url, prefix)) as router:
        await until(lambda: _is_heard(nc, router))
        for number in range(GHOSTS):
            await _beat(nc, f"ghost-{number}", tenant_id=f"made-up-{number}", interval_ms=HOUR_MS)
        await _beat(nc, "honest", tenant_id="acme", interval_ms=100)
        await until(lambda: "worker_silent:acme:honest" in alarms.causes("warning"))
        assert await read_metric(router.ready.http, "router_workers_alive") <= GHOSTS // 2 + 1


async def _beat(nc: Client, worker_id: str, **fields: object) -> None:
    await nc.publish(
        BEATS,
        json.dumps({"worker_id": worker_id, "timestamp": 1, "status": "idle", **fields}).encode(),
    )


async def _is_heard(nc: Client, router: Running) -> bool:
    """Whether the router hears heartbeats: it subscribes to them a moment after it is ready."""
    await _beat(nc, "ghost-0", tenant_id="made-up-0", interval_ms=HOUR_MS)
    return await read_metric(router.ready.http, "router_workers_alive") == 1
