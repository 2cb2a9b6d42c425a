"""Each role does its whole work with its own key: the programs as they are, on a server that allows
each no more than that.
"""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from nats.aio.client import Client as Nats
from pyspark.sql.pandas.types import to_arrow_schema

from router import Client
from router.config.connect import connect_by
from router.core.clock import now_ms
from router.delivery.consume.shares import TenantShares
from router.delivery.kv.mirror import BucketMirror, skip_seeding
from router.delivery.wire.api import JetStream
from router.gateway.kept_answers import KeptAnswers, RunningRequest, make_running
from router.gateway.keys.model.api_key import KeyTable
from router.gateway.keys.store import FollowedKeys
from router.gateway.model.kept_answer import KeptAnswer
from router.lake.commands.ingest import read_source_options
from router.lake.source.broker import read_facts
from router.lake.source.fetch import read_record_batches
from router.lake.source.offset import SequenceRange
from router.lake.source.rows import MESSAGE_SCHEMA
from router.sdk import StepResult, Worker
from router.sdk.samples.extensions.pii_guard import pii_guard
from router.work.commands.workers import make_places
from tests.support.beside import beside
from tests.support.cli import call_command_async
from tests.support.deployed import WITNESS, Deployed
from tests.support.extension_author import serve_extension
from tests.support.sdk import run_workers
from tests.support.service import a_router
from tests.support.stories import is_ready
from tests.support.waiting import until
from tests.support.workers import NOW_MS
from tests.support.workers import a_body as a_result_body

POLICY = {
    "version": "1.0",
    "providers": [{"name": "first", "weight": 1}],
    "validators": [{"id": "pii_guard"}],
}
SECRET = "my card is 4111 1111 1111 1111"


async def test_the_whole_circle_and_nothing_is_refused(deployed: Deployed, tmp_path: Path) -> None:
    """Asked by a gateway, judged by an author's extension, decided by a router, done by a worker,
    read by the lake.
    """
    worker = deployed.settings("worker")
    done = Worker(
        worker.nats, lambda _: StepResult(cost=0.5), worker_id="w-1", topology=make_places(worker)
    )
    author = deployed.settings("author")
    router = deployed.settings("router", http__port=0, acks__enabled=True)
    async with (
        a_router(router) as running,
        serve_extension(author.nats, pii_guard, reply_prefixes=author.reply.prefixes),
        run_workers(done),
    ):
        assert await is_ready(running.ready.http)
        await _operate(deployed, tmp_path)
        async with Client(deployed.settings("gateway").nats) as client:
            asked: dict[str, Any] = {
                "tenant_id": "acme",
                "message_type": "chat",
                "policy_id": "guarded",
                "timeout": 60.0,
            }
            answer = await client.decide(**asked, payload="hello", push=True, request_id="r-1")
            blocked = await client.decide(**asked, payload=SECRET)
        rows = await until_usage(deployed)
        await until(lambda: _is_booked(deployed), within_s=20, what="the budget counts it")
        letters = await call_command_async(
            "dlq", "list", "--json", environ=deployed.environ("operator")
        )
    assert answer.decision is not None
    assert blocked.error is not None
    assert (answer.decision.provider_id, blocked.error.code) == ("first", "validator_blocked")
    assert [(row["tenant_id"], row["provider_id"], row["cost"]) for row in rows] == [
        ("acme", "first", 0.5)
    ]
    assert letters.status == 0, letters.err
    assert deployed.violations() == []


async def test_what_fails_is_tried_again_kept_and_thrown_away_and_nothing_is_refused(
    deployed: Deployed,
) -> None:
    """The paths of bad days: attempts recorded by router and worker, dead letters, an operator who
    looks, replays and discards.
    """
    refusals = iter([None, "not today"])
    worker = deployed.settings("worker")
    done = Worker(
        worker.nats,
        lambda _: StepResult(cost=0.5),
        worker_id="w-2",
        accepts=lambda _: next(refusals, None),
        topology=make_places(worker),
    )
    quick = {"results__backoff_ms": "10", "results__max_attempts": 2, "tenants_allowed": "acme"}
    router = deployed.settings("router", http__port=0, acks__enabled=True, **quick)
    operator = deployed.environ("operator")
    before, witness = deployed.violations(), await deployed.connect(WITNESS)
    metered = await _stored(witness, "ROUTER_USAGE")
    async with a_router(router), run_workers(done):
        async with Client(deployed.settings("gateway").nats) as client:
            asked = {
                "tenant_id": "acme",
                "message_type": "chat",
                "payload": "hello",
                "push": True,
                "timeout": 60.0,
            }
            answers = [await client.decide(**asked, request_id=f"again-{n}") for n in range(3)]
            await client.decide(**{**asked, "tenant_id": "evil"}, request_id="refused")
        reporter = await deployed.connect("worker")
        await reporter.jetstream(timeout=60).publish(
            "caf.exec.result.v1",
            json.dumps(a_result_body(tenant_id="evil", timestamp=NOW_MS)).encode(),
        )
        await reporter.close()
        await _until_stored(witness, "ROUTER_DLQ", 2)
        replayed = await call_command_async("dlq", "replay", "--all", environ=operator)
        await _until_stored(witness, "ROUTER_DLQ", 2)
        thrown = await call_command_async("dlq", "discard", "--all", "--yes", environ=operator)
        await _until_stored(witness, "ROUTER_USAGE", metered + 3)
    left = await _stored(witness, "ROUTER_DLQ")
    await witness.close()
    assert all(answer.decision is not None for answer in answers)
    assert (replayed.status, thrown.status, left) == (0, 0, 0), replayed.err + thrown.err
    assert deployed.violations() == before


async def test_a_router_that_takes_the_settlement_over_goes_on_and_nothing_is_refused(
    deployed: Deployed,
) -> None:
    """It looks at the last settled event: whether the usage stream is still the one that was
    settled.
    """
    worker = deployed.settings("worker")
    done = Worker(
        worker.nats, lambda _: StepResult(cost=0.25), worker_id="w-3", topology=make_places(worker)
    )
    router = deployed.settings("router", http__port=0)
    before = deployed.violations()
    put = await call_command_async(
        "budget",
        "put",
        "heir",
        "--amount",
        "10",
        "--window",
        "month",
        environ=deployed.environ("operator"),
    )
    assert put.status == 0, put.err
    async with run_workers(done):
        for number, settled in ((1, "0.25"), (2, "0.5")):
            async with a_router(router), Client(deployed.settings("gateway").nats) as client:
                await client.decide(
                    tenant_id="heir",
                    message_type="chat",
                    payload="hello",
                    push=True,
                    request_id=f"heir-{number}",
                    timeout=60.0,
                )
                await until(
                    lambda settled=settled: _is_booked(deployed, "heir", settled),
                    within_s=20,
                    what="the budget counts it",
                )
    assert deployed.violations() == before


async def test_the_http_gateway_follows_what_it_reads_asks_and_is_refused_nothing(
    deployed: Deployed,
) -> None:
    before = deployed.violations()
    settings, table = deployed.settings("http_gateway"), KeyTable()
    buckets = settings.buckets
    operator = deployed.environ("operator")
    made = await call_command_async("key", "create", "acme", "--json", environ=operator)
    assert made.status == 0, made.err
    router = deployed.settings("router", http__port=0)
    connection = await connect_by(settings.nats)
    async with a_router(router) as running, Client(settings.nats) as client:
        assert await is_ready(running.ready.http)
        jetstream = JetStream(connection)
        followed = FollowedKeys(jetstream, buckets.keys.name, table)
        others = [
            BucketMirror(jetstream, name, lambda _: None, on_replaced=skip_seeding, again_s=0.1)
            for name in (buckets.policies.name, buckets.extensions.name)
        ]
        await followed.load()
        async with contextlib.AsyncExitStack() as stack:
            for following in (followed, *others):
                await stack.enter_async_context(beside(following.run()))
            await until(lambda: table.find(made.json["key"], now_ms()), what="the key is known")
            await until(lambda: all(one.check.ok for one in others), what="all are followed")
            answer = await client.decide(
                tenant_id="acme", message_type="chat", payload="hello", timeout=60.0
            )
            invoked = await client.invoke(
                tenant_id="acme", provider_id="none", prompt="hello", timeout=60.0
            )
            await _keep_an_answer(jetstream, buckets.gateway_answers.name)
            revoked = await call_command_async(
                "key", "revoke", made.json["key_id"], environ=operator
            )
            assert revoked.status == 0, revoked.err
            await until(lambda: len(table) == 0, what="the key is refused")
    await connection.close()
    assert (answer.error is None or answer.error.code, invoked.status) == (True, "error")
    assert deployed.violations() == before


async def _keep_an_answer(jetstream: JetStream, bucket: str) -> None:
    """As gateways do: begun, counted for its tenant's share, kept, asked for again."""
    shares = TenantShares(jetstream, f"KV_{bucket}", 0.25)
    answers = KeptAnswers(jetstream, bucket, shares)
    asked = make_running("content", "r-1")
    answer = KeptAnswer(status=200, headers={}, media_type="text/plain", body=b"x" * 10_000)
    async with beside(answers.run()):
        begun = await answers.begin("acme", "k-1", asked, 60.0)
        assert isinstance(begun, RunningRequest)
        await begun.keep(answer)
        again = await answers.begin("acme", "k-1", make_running("content", "r-2"), 60.0)
        assert again == answer
        await shares._extend(shares._counted, last=2)
    assert shares._counted.sizes["acme"] > 10_000


async def _stored(witness: Nats, stream: str) -> int:
    return (await witness.jsm().stream_info(stream)).state.messages


async def _until_stored(witness: Nats, stream: str, count: int) -> None:
    async def is_stored() -> bool:
        return await _stored(witness, stream) == count

    await until(is_stored, what=f"{count} messages in {stream}")


async def until_usage(deployed: Deployed) -> list[dict[str, Any]]:
    """What the lake's own reader finds, once there is something."""
    rows: list[dict[str, Any]] = []

    async def found() -> bool:
        rows[:] = await asyncio.to_thread(_usage, deployed)
        return bool(rows)

    await until(found)
    return rows


async def _is_booked(deployed: Deployed, tenant_id: str = "acme", settled: str = "0.5") -> bool:
    shown = await call_command_async(
        "budget", "show", tenant_id, "month", "--json", environ=deployed.environ("operator")
    )
    assert shown.status == 0, shown.err
    return bool(json.loads(shown.out)["settled"] == settled)


def _usage(deployed: Deployed) -> list[dict[str, Any]]:
    options = read_source_options(deployed.settings("lake").nats, "ROUTER_USAGE")
    facts = read_facts(options)
    batches = read_record_batches(
        options,
        SequenceRange(1, facts.head, facts.created),
        to_arrow_schema(MESSAGE_SCHEMA, timezone="UTC"),
    )
    return [
        json.loads(row["data"])
        for batch in batches
        for row in pa.Table.from_batches([batch]).to_pylist()
    ]


async def _operate(deployed: Deployed, tmp_path: Path) -> None:
    """What an operator does from the command line."""
    policy = tmp_path / "guarded.json"
    policy.write_text(json.dumps(POLICY))
    entry = {
        "id": "pii_guard",
        "type": "validator",
        "subject": pii_guard.subject,
        "timeout_ms": 20_000,
    }
    registered = tmp_path / "pii_guard.json"
    registered.write_text(json.dumps(entry))
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"provider": "openai", "output": "10", "currency": "USD"}))
    operator = deployed.environ("operator")
    for command in (
        ("extension", "register", str(registered)),
        ("price", "put", str(prices)),
        ("policy", "put", "acme", "guarded", str(policy)),
        ("budget", "put", "acme", "--amount", "10", "--window", "month"),
        ("backup", str(tmp_path / "backup")),
    ):
        ended = await call_command_async(*command, environ=operator)
        assert ended.status == 0, ended.err or ended.out
