"""What a console shows and no stream stores for it: heartbeats of workers, learned figures of
providers, tables of usage.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import orjson

from router.config import Settings
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS, MAX_INTERVAL_MS
from router.contracts.stored_record import record_bytes
from router.core.clock import now_ms
from router.delivery.wire.api import JetStream
from router.policies.model.measurements.values import (
    FiguresRecord,
    MinuteRecord,
    ProviderFiguresRecord,
    figures_key,
)
from tests.support.console_data import PROVIDERS, TENANTS
from tests.support.lake_gold import Use, a_warehouse

STATUSES = ("idle", "busy", "draining")
LAST_DAY = date(2026, 11, 20)
LIFE = "another-life"
AT_ONCE = 500


async def send_heartbeats(jetstream: JetStream, workers: int) -> None:
    """One of each. None of them is silent for an hour."""
    connection = jetstream.connection
    for number in range(workers):
        beat = {
            "worker_id": f"worker-{number:04}",
            "tenant_id": TENANTS[number % len(TENANTS)],
            "status": STATUSES[number % len(STATUSES)],
        }
        beat |= {
            "load": number % 101 / 100,
            "capacity": 8,
            "interval_ms": MAX_INTERVAL_MS,
            "timestamp": now_ms(),
        }
        connection.publish_nowait(HEARTBEAT_SUBJECTS[0], orjson.dumps(beat))
        if number % AT_ONCE == 0:
            await connection.flush(60)
    await connection.flush(60)


async def store_figures(jetstream: JetStream, settings: Settings, providers: int) -> None:
    """As another router shares them: so many of each tenant."""
    for tenant in TENANTS:
        figures = {
            f"{PROVIDERS[number % len(PROVIDERS)]}-{number:03}": _figure(number)
            for number in range(providers)
        }
        record = FiguresRecord(tenant_id=tenant, node="another", life=LIFE, providers=figures)
        await jetstream.publish(
            f"$KV.{settings.buckets.figures.name}.{figures_key(tenant, LIFE)}",
            record_bytes(record),
            {},
        )


def _figure(number: int) -> ProviderFiguresRecord:
    minute = MinuteRecord(
        successes=90 + number % 10,
        failures=number % 7,
        chosen=100 + number,
        latencies={100 + number % 100: 90},
    )
    moving = {
        "latency_ms": 40.0 + number,
        "success_rate": 1 - number % 7 / 100,
        "cost": number / 1000,
    }
    return ProviderFiguresRecord(
        stamp_ms=now_ms(),
        silent_ms=number,
        samples=1_000 + number,
        in_flight=number % 9,
        minutes=(minute, minute),
        **moving,
    )


def write_usage(directory: Path, days: int) -> None:
    """A line for each day, tenant and provider."""
    a_warehouse(directory, _list_uses(days))


def _list_uses(days: int) -> Iterator[Use]:
    for number in range(days):
        day = (LAST_DAY - timedelta(days=number)).isoformat()
        for place, tenant in enumerate(TENANTS):
            for provider in PROVIDERS:
                yield Use(
                    tenant=tenant,
                    provider=provider,
                    day=day,
                    latencies=tuple(range(20, 60 + 10 * place + number % 30)),
                    cost="0.25",
                )
