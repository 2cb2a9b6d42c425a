from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from router.config import Settings
from router.core.errors import BrokerRefused
from router.delivery.wire import topology
from router.delivery.wire.api import CONSUMER_EXISTS, JetStream
from router.delivery.wire.topology import (
    CONSUMER_NOT_MADE,
    PAUSED,
    ConsumerSpec,
    Difference,
    StreamSpec,
    Topology,
    apply,
    bucket,
    compare,
    create,
    restore,
)
from router.operate.topology.declared_topology import declare_topology
from tests.support.broker import Broker
from tests.support.delivery import WorkStreams, connected
from tests.support.waiting import until


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkStreams]:
    """Names on a server that has nothing yet."""
    async with connected(nats_url) as connection:
        yield WorkStreams(connection, prefix)


def only_stream(place: WorkStreams, **facts: Any) -> Topology:
    return Topology((StreamSpec(name=place.stream, subjects=(place.work,), **facts),))


def with_consumer(place: WorkStreams, **facts: Any) -> Topology:
    return Topology(
        only_stream(place).streams,
        (ConsumerSpec(stream=place.stream, durable=place.durable, **facts),),
    )


async def test_what_is_missing_is_named_and_made(place: WorkStreams) -> None:
    declared = place.topology()
    assert [(one.kind, one.state) for one in await compare(place.jetstream, declared)] == [
        ("stream", "missing")
    ] * 3 + [("consumer", "missing")]
    assert await create(place.jetstream, declared) == []
    assert await compare(place.jetstream, declared) == []
    assert await restore(place.jetstream, place.stream, place.durable) is not None


@pytest.mark.parametrize(
    "facts",
    [
        {
            "max_age": 86400.0,
            "max_bytes": 1 << 20,
            "discard": "new",
            "no_ack": True,
            "duplicate_window": 0.1,
        },
        {"retention": "workqueue", "allow_direct": False, "max_per_subject": 5},
        {"max_age": 60.0, "duplicate_window": 120.0},
        {"max_age": 0.0, "duplicate_window": 120.0, "allow_rollup": True},
    ],
)
async def test_a_stream_as_declared_has_not_drifted(
    place: WorkStreams, facts: dict[str, Any]
) -> None:
    assert await create(place.jetstream, only_stream(place, **facts)) == []


async def test_creating_twice_changes_nothing(place: WorkStreams) -> None:
    await create(place.jetstream, place.topology())
    before = await place.jetstream.stream(place.stream)
    assert await create(place.jetstream, place.topology()) == []
    after = await place.jetstream.stream(place.stream)
    assert before is not None
    assert after is not None
    assert after["created"] == before["created"]


async def test_a_drifted_stream_is_named_with_its_fields_and_left_alone(place: WorkStreams) -> None:
    await create(place.jetstream, only_stream(place, max_age=60.0))
    (drift,) = await create(place.jetstream, only_stream(place, max_age=90.0, discard="new"))
    assert (drift.kind, drift.name, drift.state) == ("stream", place.stream, "drifted")
    assert drift.fields["max_age"] == (90_000_000_000, 60_000_000_000)
    assert drift.fields["discard"] == ("new", "old")
    assert f"stream {place.stream}: " in str(drift)
    assert [
        one.state for one in await compare(place.jetstream, only_stream(place, max_age=90.0))
    ] == ["drifted"]


async def test_a_drifted_consumer_is_named_and_never_overwritten_in_silence(
    place: WorkStreams,
) -> None:
    await create(place.jetstream, with_consumer(place, ack_wait=30.0))
    (drift,) = await create(place.jetstream, with_consumer(place, ack_wait=5.0))
    assert drift == Difference(
        "consumer",
        f"{place.stream}/worker",
        "drifted",
        {"ack_wait": (5_000_000_000, 30_000_000_000)},
    )
    info = await place.jetstream.consumer(place.stream, place.durable)
    assert info is not None
    assert info["config"]["ack_wait"] == 30_000_000_000


async def test_a_consumer_that_another_process_makes_in_between_is_not_overwritten_either(
    place: WorkStreams,
) -> None:
    await create(place.jetstream, with_consumer(place, ack_wait=30.0))
    seen_missing = Difference("consumer", f"{place.stream}/{place.durable}", "missing")
    with pytest.raises(BrokerRefused) as refused:
        await topology._make(
            place.jetstream, with_consumer(place, ack_wait=5.0), seen_missing, "CREATE"
        )
    assert refused.value.err_code == CONSUMER_EXISTS


async def test_apply_brings_back_what_has_drifted_and_says_what_it_did(place: WorkStreams) -> None:
    await create(place.jetstream, with_consumer(place, ack_wait=30.0))
    wanted = with_consumer(place, ack_wait=5.0, metadata={"queue_group": "g"})
    wanted = Topology((replace(wanted.streams[0], max_age=90.0),), wanted.consumers)
    assert [(one.kind, one.state) for one in await apply(place.jetstream, wanted)] == [
        ("stream", "drifted"),
        ("consumer", "drifted"),
    ]
    assert await compare(place.jetstream, wanted) == []
    assert await apply(place.jetstream, wanted) == []


async def test_a_stream_that_takes_no_batches_is_no_drift_and_apply_lets_it_take_them(
    place: WorkStreams,
) -> None:
    await create(place.jetstream, only_stream(place))
    wanted = only_stream(place, allow_atomic=True)
    assert await create(place.jetstream, wanted) == []
    assert [one.state for one in await apply(place.jetstream, wanted)] == ["unbatched"]
    assert await compare(place.jetstream, wanted) == []


async def test_a_bucket_that_takes_no_batches_is_no_drift_and_apply_lets_it_take_them(
    place: WorkStreams, prefix: str
) -> None:
    plain = bucket(f"{prefix}_records", ttl=60)
    await create(place.jetstream, Topology((plain,)))
    wanted = Topology((replace(plain, allow_atomic=True),))
    assert await create(place.jetstream, wanted) == []
    assert [one.state for one in await apply(place.jetstream, wanted)] == ["unbatched"]
    assert await compare(place.jetstream, wanted) == []


async def test_apply_makes_what_is_missing(place: WorkStreams) -> None:
    assert [one.state for one in await apply(place.jetstream, with_consumer(place))] == [
        "missing",
        "missing",
    ]
    assert await compare(place.jetstream, with_consumer(place)) == []


async def test_apply_leaves_what_is_not_declared_as_the_operator_made_it(
    place: WorkStreams,
) -> None:
    body = {**only_stream(place).streams[0].to_json(), "description": "mine", "max_msgs": 77}
    await place.jetstream.ask(f"STREAM.CREATE.{place.stream}", body)
    await apply(place.jetstream, only_stream(place, max_age=90.0))
    info = await place.jetstream.stream(place.stream)
    assert info is not None
    assert (info["config"]["description"], info["config"]["max_msgs"]) == ("mine", 77)


async def test_apply_leaves_of_a_consumer_what_is_not_declared(place: WorkStreams) -> None:
    """Its metadata, too: a worker notes there which assignments are from before its durable."""
    await create(
        place.jetstream,
        with_consumer(place, metadata={"router-start-after": "7", "queue_group": "f"}),
    )
    await apply(place.jetstream, with_consumer(place, ack_wait=5.0))
    await apply(place.jetstream, with_consumer(place, ack_wait=5.0, metadata={"queue_group": "g"}))
    info = await place.jetstream.consumer(place.stream, place.durable)
    assert info is not None
    assert info["config"]["ack_wait"] == 5_000_000_000
    assert {"router-start-after": "7", "queue_group": "g"}.items() <= info["config"][
        "metadata"
    ].items()


async def test_a_foreign_stream_on_the_subject_is_a_refusal_that_names_ours(
    place: WorkStreams,
) -> None:
    await create(place.jetstream, only_stream(place))
    rival = Topology((StreamSpec(name="RIVAL", subjects=(place.work,)),))
    with pytest.raises(BrokerRefused, match="stream RIVAL") as refused:
        await create(place.jetstream, rival)
    assert refused.value.err_code == 10065


async def test_what_one_server_cannot_do_is_a_refusal(place: WorkStreams) -> None:
    with pytest.raises(BrokerRefused) as refused:
        await create(place.jetstream, only_stream(place, replicas=3))
    assert refused.value.err_code == 10074


async def test_a_bucket_is_one_that_any_client_can_open(place: WorkStreams) -> None:
    assert await create(place.jetstream, Topology((bucket(place.bucket, ttl=60, history=3),))) == []
    store = await place.connection.jetstream(timeout=60).key_value(place.bucket)
    await store.put("a.b", b"1")
    status = await store.status()
    assert ((await store.get("a.b")).value, status.history, status.ttl) == (b"1", 3, 60)


async def test_a_consumer_of_a_stream_that_is_gone_is_not_there(place: WorkStreams) -> None:
    await create(place.jetstream, with_consumer(place))
    await place.jetstream.ask(f"STREAM.DELETE.{place.stream}")
    assert await restore(place.jetstream, place.stream, place.durable) is None


async def test_a_durable_that_an_operator_paused_differs_and_apply_leaves_it_paused(
    place: WorkStreams,
) -> None:
    wanted = with_consumer(place)
    await create(place.jetstream, wanted)
    await place.jetstream.ask(
        f"CONSUMER.PAUSE.{place.stream}.{place.durable}", {"pause_until": "2099-01-01T00:00:00Z"}
    )
    (found,) = await compare(place.jetstream, wanted)
    assert found.state == PAUSED
    assert str(found).endswith(
        f"is paused until 2099-01-01T00:00:00Z: `nats consumer resume {place.stream} "
        f"{place.durable}`"
    )
    assert await apply(place.jetstream, wanted) == []
    assert [one.state for one in await compare(place.jetstream, wanted)] == [PAUSED]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_msg_size", 1000),
        ("discard_new_per_subject", True),
        ("republish", {"src": ">", "dest": "copied.>", "headers_only": False}),
        ("subject_transform", {"src": ">", "dest": "renamed.>"}),
    ],
)
async def test_what_refuses_copies_or_renames_messages_is_a_difference_that_apply_ends(
    place: WorkStreams, field: str, value: object
) -> None:
    wanted = only_stream(place, discard="new", max_per_subject=5)
    await place.jetstream.ask(
        f"STREAM.CREATE.{place.stream}", {**wanted.streams[0].to_json(), field: value}
    )
    (drift,) = await compare(place.jetstream, wanted)
    assert (drift.state, list(drift.fields)) == ("drifted", [field])
    await apply(place.jetstream, wanted)
    assert await compare(place.jetstream, wanted) == []


@pytest.mark.parametrize("field", ["sealed", "deny_delete", "deny_purge"])
async def test_what_the_server_never_undoes_is_named_with_a_remedy_that_works_and_hinders_no_other(
    place: WorkStreams, field: str
) -> None:
    wanted = with_consumer(place)
    await place.jetstream.ask(f"STREAM.CREATE.{place.stream}", wanted.streams[0].to_json())
    await place.jetstream.ask(
        f"STREAM.UPDATE.{place.stream}", {**wanted.streams[0].to_json(), field: True}
    )
    drift, missing = await compare(place.jetstream, wanted)
    assert (drift.state, missing.state) == ("irreversible", "missing")
    assert list(drift.fields) == [field]
    assert f"`nats stream rm {place.stream}`, then `router topology apply`" in str(drift)
    with pytest.raises(BrokerRefused, match="nats stream rm"):
        await apply(place.jetstream, wanted)
    assert [one.name for one in await compare(place.jetstream, wanted)] == [place.stream]
    await place.jetstream.ask(f"STREAM.DELETE.{place.stream}")
    await apply(place.jetstream, wanted)
    assert await compare(place.jetstream, wanted) == []


async def test_a_bucket_that_the_nats_tool_made_is_as_declared(place: WorkStreams) -> None:
    """Its `deny_delete` hinders no key."""
    name = f"KV_{place.stream}"
    wanted = Topology((replace(bucket(place.stream), name=name),))
    await place.jetstream.ask(
        f"STREAM.CREATE.{name}", {**wanted.streams[0].to_json(), "deny_delete": True}
    )
    assert await compare(place.jetstream, wanted) == []


def test_deny_delete_is_legal_for_a_bucket_unless_its_records_are_deleted_by_their_numbers() -> (
    None
):
    """As `nats kv add` makes every bucket. What is never deleted fills one whose entries stay for
    ever.
    """
    compared = {
        spec.name: "deny_delete" in spec.compared
        for spec in declare_topology(Settings()).streams
        if spec.name.startswith("KV_")
    }
    assert [name for name, is_compared in compared.items() if is_compared] == [
        "KV_ROUTER_INVOCATIONS"
    ]


async def test_a_durable_whose_state_a_power_cut_tore_is_named_with_its_remedy() -> None:
    with Broker() as broker:
        async with connected(broker.url) as connection:
            declared = with_consumer(WorkStreams(connection, "torn"))
            assert await create(JetStream(connection), declared) == []
            await until(broker.has_durable_state)
        broker.stop()
        broker.tear_durables()
        broker.start()
        async with connected(broker.url) as connection:
            with pytest.raises(BrokerRefused, match=declared.consumers[0].durable) as refused:
                await create(JetStream(connection), declared)
    assert refused.value.err_code == CONSUMER_NOT_MADE
    assert "durability.md#torn-durable" in str(refused.value)
