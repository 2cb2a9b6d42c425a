"""The facts, from real servers."""

from functools import partial

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import create
from router.operate.doctor import Facts, SyncMode, Verdict, checks, collect
from router.operate.topology.declared_topology import declare_topology
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.service import settings_for
from tests.support.waiting import until

ACCOUNTS = (
    (
        "accounts { SYS { users [{user: sys, password: p}] }, A { jetstream: enabled, users "
        "[{user: a, password: p}] } }"
    ),
    "system_account: SYS",
)


async def _facts(settings: Settings, *, made: bool = True, **login: str) -> Facts:
    async with connected(*settings.nats.url, **login) as connection:
        jetstream = JetStream(connection)
        if made:
            await create(jetstream, declare_topology(settings))
            await connection.publish(settings.decide.subject, b"one")
            await until(partial(_has_pending, jetstream, settings))
        return await collect(
            jetstream, declare_topology(settings), letters=settings.streams.dlq.name, max_request=1
        )


async def _has_pending(jetstream: JetStream, settings: Settings) -> bool:
    """Whether the consumer counts a message; its stream sends no publish ack."""
    consumer = await jetstream.consumer(settings.streams.decide.name, settings.decide.durable)
    return consumer is not None and bool(consumer["num_pending"])


async def test_an_empty_server_lacks_everything_and_can_be_looked_at(
    nats_url: str, prefix: str
) -> None:
    facts = await _facts(settings_for(nats_url, prefix), made=False)
    assert (facts.streams, facts.consumers) == ((), ())
    assert {difference.state for difference in facts.differences} == {"missing"}
    assert facts.server.has_jetstream
    assert facts.server.version >= (2, 11, 0)


async def test_a_durable_that_a_power_cut_tore_fails_and_says_where_its_remedy_stands() -> None:
    with Broker() as broker:
        settings = settings_for(broker.url, "torn")
        await _facts(settings)
        await until(broker.has_durable_state)
        broker.stop()
        broker.tear_durables()
        broker.start()
        facts = await _facts(settings, made=False)
    stream, durable = settings.streams.decide.name, settings.decide.durable
    told = next(
        finding for finding in checks.topology(facts) if f"{stream}/{durable}" in finding.found
    )
    assert told.verdict is Verdict.FAIL
    assert "docs/explanation/durability.md#torn-durable" in told.remedy
    others = [finding for finding in checks.topology(facts) if finding.found != told.found]
    assert not any("torn-durable" in finding.remedy for finding in others)


async def test_what_waits_is_found_with_its_age(nats_url: str, prefix: str) -> None:
    facts = await _facts(settings_for(nats_url, prefix))
    consumer = facts.consumers[0]
    assert (consumer.pending, consumer.oldest_sequence) == (1, 1)
    assert consumer.oldest_at is not None
    assert abs(facts.now - consumer.oldest_at) < 5
    assert facts.differences == ()
    assert facts.streams[0].messages == 1


async def test_a_bucket_of_the_earlier_version_is_found(prefix: str) -> None:
    with Broker() as broker:
        connection = await connect({"servers": [broker.url]})
        await JetStream(connection).ask(
            "STREAM.CREATE.KV_ROUTER_STARTS",
            {"name": "KV_ROUTER_STARTS", "subjects": ["$KV.ROUTER_STARTS.>"]},
        )
        await connection.close()
        assert (await _facts(settings_for(broker.url, prefix), made=False)).left_over == (
            "ROUTER_STARTS",
        )


async def test_an_ordinary_account_cannot_read_the_sync_mode(nats_url: str, prefix: str) -> None:
    assert (await _facts(settings_for(nats_url, prefix), made=False)).server.sync == SyncMode()


async def test_the_system_account_reads_the_sync_mode_and_has_no_jetstream() -> None:
    with Broker(*ACCOUNTS) as broker:
        facts = await _facts(settings_for(broker.url), made=False, user="sys", password="p")
        assert facts.server.sync == SyncMode(120.0)
        assert not facts.server.has_jetstream
