"""A live scrape of everything that has metrics: a router after a little of each, a gateway, a
relay, an inbox, an agent.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from prometheus_client.parser import text_string_to_metric_families

from router.config import load
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import Topology
from router.mailbox.inbox_process import InboxService
from router.mailbox.relay_process import RelayService
from router.operate.dead_letters.original import REPLAY_RUN
from router.sdk.agent import Agent
from router.serve.service import RouterService
from tests.support.agents import a_command
from tests.support.beside import beside
from tests.support.counting_agent import SUBJECT as COUNT
from tests.support.counting_agent import CountingAgent
from tests.support.gateway import a_gateway, wait_for_provider
from tests.support.inbox import EFFECTS, EVENTS, publish, record
from tests.support.mailbox import fill_outbox
from tests.support.patient_client import PATIENCE_S, connect_patiently
from tests.support.ports import free_port
from tests.support.postgres import rows
from tests.support.registry import an_entry
from tests.support.requests import a_body
from tests.support.stories import read_page
from tests.support.waiting import until
from tests.support.workers import NOW_MS
from tests.support.workers import a_body as a_result

Series = dict[str, list[dict[str, str]]]  # by metric, the labels of each of its series

DECIDE, RESULTS, ACKS = "beamline.router.v1.decide", "caf.exec.result.v1", "caf.exec.assign.v1.ack"
POLICY = {
    "version": "1.0",
    "providers": [{"name": "openai", "weight": 1}],
    "sticky": {"enabled": True, "session_key": "user_id", "ttl": "10m"},
    "pre": [{"id": "tidy", "mode": "optional"}],
}


async def router_series(url: str, home: Path) -> Series:
    """A router's, after decisions, refusals, an extension without a server, dead letters,
    violations, results, acks, heartbeats.
    """
    seeds = {"policies.dir": home / "policies", "extensions.dir": home / "extensions"}
    _write(home / "policies" / "_shared" / "default.json", POLICY)
    _write(home / "extensions" / "tidy.json", an_entry("tidy", "pre"))
    settings = load(
        None,
        {"nats.url": url, "http.port": 0, "acks.enabled": True, "tenants_allowed": "acme", **seeds},
        {},
    ).settings
    service = RouterService(settings)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with (
        _at_work(service.run(lambda told: ready.set_result(told.http))),
        await connect_patiently(url) as nc,
    ):
        http = await ready
        await _a_little_of_everything(nc)
        seen = (
            "router_dlq_total",
            "router_redelivery_total",
            "router_results_total",
            "router_acks_total",
            "router_dlq_depth",
        )
        wanted = (*seen, "router_circuit_breaker_transitions_total", "router_stream_limit_bytes")
        return await _once_told(http, *wanted)


async def partition_series(url: str, home: Path) -> Series:
    """A router's that has one partition and stands by for another."""
    names = {"decide.partition": "0", "decide.standby": "1", "policies.dir": home / "policies"}
    service = RouterService(load(None, {"nats.url": url, "http.port": 0, **names}, {}).settings)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with _at_work(service.run(lambda told: ready.set_result(told.http))):
        return await _once_told(await ready, "router_partition_attended")


async def gateway_series(url: str, home: Path) -> Series:
    """A gateway's, after a wrong key, and a request whose two providers no process serves."""
    asked = {"model": "router/gone", "messages": [{"role": "user", "content": "hello"}]}
    settings = load(
        None,
        {
            **{"nats.url": url, "http.port": 0, "gateway.port": 0, "gateway.pages_port": 0},
            **{"policies.dir": home / "policies", "extensions.dir": home / "providers"},
        },
        {},
    ).settings
    names = ("one", "two")
    for name in names:
        _write(home / "providers" / f"{name}.json", an_entry(name, "provider"))
    two = [{"name": name, "weight": 1} for name in names]
    _write(home / "policies" / "_shared" / "gone.json", {"version": "1.0", "providers": two})
    service = RouterService(settings)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with _at_work(service.run(lambda told: ready.set_result(told.http))):
        await ready
        async with a_gateway(settings) as gateway:
            for name in names:
                await wait_for_provider(gateway, name)
            await gateway.post("/v1/chat/completions", asked)
            await gateway.get("/v1/models", authorization="Bearer rk_wrong")
            return await _once_told(
                gateway.service._host.url,
                "router_gateway_requests_total",
                "router_gateway_failovers_total",
                "router_gateway_keys_refused_total",
            )


async def mailbox_series(url: str, dsn: str) -> Series:
    """A relay's and an inbox's together, after a few events of each."""
    names = {
        "nats.url": url,
        "http.port": 0,
        "mailbox.dsn": dsn,
        "mailbox.events.max_bytes": -1,
        "inbox.ack_wait_ms": 1000,
    }
    settings = load(None, names, {}).settings
    await rows(dsn, EFFECTS)
    await fill_outbox(dsn, 3)
    connection = await connect({"servers": [url]})
    await topology.create(JetStream(connection, timeout_s=PATIENCE_S), Topology((EVENTS,)))
    await connection.close()
    relay: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    inbox: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with (
        await connect_patiently(url) as nc,
        _at_work(RelayService(settings).run(relay.set_result)),
        _at_work(InboxService(settings, record).run(inbox.set_result)),
    ):
        await publish(nc, range(3))
        left = await _once_told(
            await relay, "router_outbox_published_total", "router_outbox_backlog"
        )
        return left | await _once_told(
            await inbox, "router_inbox_handled_total", "router_inbox_backlog", but=left
        )


async def agent_series(url: str, home: Path) -> Series:
    """An agent's, after one message."""
    port = free_port()
    agent = Agent(url, CountingAgent(), store=home / "witness.db", http=("127.0.0.1", port))
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with _at_work(agent.run(ready.set_result)), await connect_patiently(url) as nc:
        await ready
        await nc.jetstream().publish(COUNT, a_command())
        await until(lambda: agent.applied == 1)
        return await _once_told(
            f"http://127.0.0.1:{port}", "router_agent_applied_total", "router_consumer_paused"
        )


async def _a_little_of_everything(nc: Client) -> None:
    # five calls that fail open the breaker of an extension that no process serves
    for number in range(6):
        asked = {**a_body(), "request_id": f"r-{number}", "context": {"user_id": "u-1"}}
        # no message id: a violation
        await nc.request(
            DECIDE, json.dumps(asked).encode(), timeout=30, headers={"tenant_id": "acme"}
        )
    await nc.request(DECIDE, b"{}", timeout=30, headers={REPLAY_RUN: "of-a-replay"})
    for status in ("success", "error"):
        await _stored(
            nc,
            RESULTS,
            a_result(
                assignment_id=f"a-{status}",
                request_id=f"r-{status}",
                status=status,
                timestamp=NOW_MS,
            ),
        )
    await _stored(
        nc,
        RESULTS,
        a_result(assignment_id="a-x", request_id="r-x", tenant_id="another", timestamp=NOW_MS),
    )
    await _stored(nc, ACKS, {"assignment_id": "a-success", "status": "accepted"})
    beat = {
        "worker_id": "w-1",
        "status": "idle",
        "timestamp": 1_700_000_000_000,
        "interval_ms": 1000,
    }
    await nc.publish("caf.worker.heartbeat.v1", json.dumps(beat).encode())


async def _stored(nc: Client, subject: str, body: dict[str, Any]) -> None:
    await nc.jetstream().publish(subject, json.dumps(body).encode())


async def _once_told(http: str, *metrics: str, but: Series | None = None) -> Series:
    """A scrape, as soon as these metrics have series."""
    told: Series = {}

    async def is_told() -> bool:
        nonlocal told
        told = series_of((await read_page(http, "/metrics"))[1])
        return all(told.get(name) for name in metrics)

    await until(is_told, what=f"series of {metrics}")
    return {name: [*(but or {}).get(name, []), *labels] for name, labels in told.items()}


def series_of(text: str) -> Series:
    """A page, as Prometheus reads it; a metric without series is there with none."""
    by_name: Series = {}
    for family in text_string_to_metric_families(text):
        by_name.setdefault(f"{family.name}_total" if family.type == "counter" else family.name, [])
        for sample in family.samples:
            by_name.setdefault(sample.name, []).append(sample.labels)
    return by_name


def _write(file: Path, document: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))


@contextlib.asynccontextmanager
async def _at_work(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with beside(run):
        yield
