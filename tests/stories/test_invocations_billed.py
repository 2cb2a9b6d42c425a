"""What reaches a provider is billed, attempt by attempt, by identities that the router makes; the
same again is not asked.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from router import Client
from router.contracts.assignment_record import invoked_key, reported_key, unmarked_key
from router.contracts.usage import assignment_identity
from router.core import ids
from router.work.assignment_claims import ENDED
from tests.support.providers import (
    an_entry,
    answers,
    hangs,
    read_until_failure,
    register,
    says_no,
    serve_provider,
)
from tests.support.router_streams import (
    a_result,
    publish_result,
    read_stream,
    read_usage,
    store_assignment,
)
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, read_metric
from tests.support.waiting import until

ASKED: Json = {"tenant_id": "acme", "provider_id": "echo", "prompt": "hello"}
COST = Decimal("0.25")  # of an answer of `answers`


@pytest.fixture
async def router(nats_url: str, prefix: str) -> AsyncIterator[Running]:
    async with a_router(settings_for(nats_url, prefix)) as router:
        await register(router, an_entry(), an_entry("retried", retry=2))
        yield router


def cost_of(events: list[Json]) -> Decimal:
    """What these events bill: each identity once."""
    return sum(
        (
            Decimal(str(event["cost"]))
            for event in {event["event_id"]: event for event in events}.values()
        ),
        Decimal(0),
    )


async def test_a_hundred_invocations_under_one_id_are_billed_as_often_as_the_provider_was_asked(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, answers) as asked:
        told = [
            await client.invoke(**ASKED, request_id="r-1", trace_id=f"t-{number}")
            for number in range(100)
        ]
    events = await read_usage(nc, router.settings)
    assert len({event.get("event_id") for event in events}) == len(asked) == 1
    assert cost_of(events) == COST * len(asked)
    assert {(response.ok, response.body) for response in told} == {(True, "you said hello")}
    assert [response.metadata.get("repeated") for response in told] == [None, *["true"] * 99]


async def test_the_same_at_the_same_time_waits_for_the_first(
    nc: Nats, router: Running, client: Client
) -> None:
    may_reply = asyncio.Event()

    async def answer_late(message: Msg) -> None:
        await may_reply.wait()
        await answers(message)

    async with serve_provider(nc, answer_late) as asked:
        asking = [asyncio.create_task(client.invoke(**ASKED, request_id="r-1")) for _ in range(5)]
        await until(lambda: asked)
        await asyncio.sleep(0)
        may_reply.set()
        told = await asyncio.gather(*asking)
    assert len(asked) == 1
    assert all(response.ok for response in told)
    assert cost_of(await read_usage(nc, router.settings)) == COST


async def test_other_content_under_an_id_that_is_known_is_refused(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, answers) as asked:
        assert (await client.invoke(**ASKED, request_id="r-1")).ok
        told = await client.invoke(**{**ASKED, "prompt": "something else"}, request_id="r-1")
        assert (
            await client.invoke(
                **{**ASKED, "tenant_id": "globex", "prompt": "mine"}, request_id="r-1"
            )
        ).ok
    assert (told.status, told.error_code, told.metadata["field"]) == (
        "error",
        "invalid_request",
        "message_id",
    )
    assert len(asked) == 2


async def test_other_content_under_an_id_is_refused_while_the_first_is_under_way(
    nc: Nats, router: Running, client: Client
) -> None:
    may_reply = asyncio.Event()

    async def answer_late(message: Msg) -> None:
        await may_reply.wait()
        await answers(message)

    async with serve_provider(nc, answer_late) as asked:
        first = asyncio.create_task(client.invoke(**ASKED, request_id="r-1"))
        await until(lambda: asked)
        other = asyncio.create_task(
            client.invoke(**{**ASKED, "prompt": "something else"}, request_id="r-1")
        )
        await asyncio.sleep(0)
        may_reply.set()
        assert (await first).body == "you said hello"
        told = await other
    assert (told.status, told.error_code, told.metadata["field"]) == (
        "error",
        "invalid_request",
        "message_id",
    )
    assert len(asked) == 1
    assert cost_of(await read_usage(nc, router.settings)) == COST


async def test_other_content_under_the_id_of_a_stream_is_refused(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, answers) as asked:
        assert [chunk.done async for chunk in client.invoke_stream(**ASKED, request_id="r-1")] == [
            True
        ]
        chunks, failed = await read_until_failure(
            client.invoke_stream(**{**ASKED, "prompt": "something else"}, request_id="r-1")
        )
    assert (chunks, failed.code, failed.metadata["field"]) == ([], "invalid_request", "message_id")
    assert len(asked) == 1
    assert cost_of(await read_usage(nc, router.settings)) == COST


async def test_a_failure_is_not_kept_the_same_again_is_asked_and_billed(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, says_no(503)) as asked:
        for _ in range(3):
            assert not (await client.invoke(**ASKED, request_id="r-1")).ok
    events = await read_usage(nc, router.settings)
    assert len({event.get("event_id") for event in events}) == len(asked) == 3


async def test_what_had_no_id_is_asked_each_time(nc: Nats, router: Running) -> None:
    body = json.dumps({"provider_id": "echo", "tenant_id": "acme", "body": "hello"}).encode()
    async with serve_provider(nc, answers) as asked:
        for _ in range(2):
            assert (
                json.loads(
                    (await nc.request("beamline.provider.v1.invoke", body, timeout=60)).data
                )["status"]
                == "success"
            )
    assert len(asked) == 2
    assert cost_of(await read_usage(nc, router.settings)) == 2 * COST


async def test_a_second_instance_asks_again_and_bills_it(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    async with Client(nats_url) as client, serve_provider(nc, answers) as asked:
        for _ in range(2):
            async with a_router(settings_for(nats_url, prefix)) as router:
                await register(router, an_entry())
                assert (await client.invoke(**ASKED, request_id="r-1")).ok
    assert len(asked) == 2
    assert cost_of(await read_usage(nc, router.settings)) == 2 * COST


async def test_under_the_id_of_an_assignment_of_ones_own_each_attempt_is_billed(
    nc: Nats, router: Running, client: Client
) -> None:
    """The first that ends well is the assignment's bill, which its worker's result repeats; each
    other one has an identity of its own.
    """
    known = await store_assignment(nc, router.settings, "own", provider="echo")
    asked_for: Json = {
        **ASKED,
        "request_id": known["assignment_id"],
        "context": {"assignment_id": known["assignment_id"]},
    }
    async with serve_provider(nc, says_no(503)) as asked:
        for _ in range(3):
            assert not (await client.invoke(**asked_for)).ok
    async with serve_provider(nc, answers) as answered:
        assert (await client.invoke(**asked_for)).ok
        assert [chunk.done async for chunk in client.invoke_stream(**asked_for)] == [True]
    events = await read_usage(nc, router.settings)
    identities = [event.get("event_id") for event in events]
    assert len(set(identities)) == len(asked) + len(answered) == 5
    assert identities.index(assignment_identity("acme", known["assignment_id"])) == 3
    assert (events[3]["assignment_id"], events[3]["request_id"]) == (
        known["assignment_id"],
        known["request_id"],
    )
    assert cost_of(events) == 2 * COST


async def test_the_reservation_of_an_assignment_goes_with_its_bill_alone(
    nc: Nats, router: Running, client: Client
) -> None:
    known = await store_assignment(
        nc, router.settings, "own", provider="echo", reservation="life 7 chat month#3"
    )
    asked_for: Json = {
        **ASKED,
        "request_id": known["assignment_id"],
        "context": {"assignment_id": known["assignment_id"]},
    }
    async with serve_provider(nc, answers):
        assert (await client.invoke(**asked_for)).ok
        assert [chunk.done async for chunk in client.invoke_stream(**asked_for)] == [True]
    stored = await read_stream(nc, router.settings.streams.usage.name)
    assert [headers.get("Router-Reservation") for _, _, headers in stored] == [
        "life 7 chat month#3",
        None,
    ]


async def test_an_attempt_that_fails_leaves_the_reservation_to_its_assignment(
    nc: Nats, router: Running, client: Client
) -> None:
    known = await store_assignment(
        nc, router.settings, "own", provider="echo", reservation="life 7 chat month#3"
    )
    async with serve_provider(nc, says_no(503)):
        await client.invoke(
            **ASKED,
            request_id=known["assignment_id"],
            context={"assignment_id": known["assignment_id"]},
        )
    ((_, _, headers),) = await read_stream(nc, router.settings.streams.usage.name)
    assert headers["Router-Reservation"] == "life 0 chat"


async def test_work_whose_tenant_invokes_its_provider_for_next_to_nothing_is_billed(
    nc: Nats, router: Running, client: Client
) -> None:
    """The invocation under the assignment's id is its bill, and the worker's own work cost more."""
    known = await store_assignment(nc, router.settings, "own", provider="echo")
    async with serve_provider(nc, answers):
        assert (
            await client.invoke(
                **ASKED,
                request_id=known["assignment_id"],
                context={"assignment_id": known["assignment_id"]},
            )
        ).ok
    await publish_result(
        nc,
        router.settings,
        a_result("own", cost=0.75, status="success", provider_id="echo", tenant_id="acme"),
    )

    async def is_corrected() -> bool:
        stored = await read_stream(nc, router.settings.streams.usage.name)
        return [json.loads(data)["cost"] for _, data, _ in stored] == [0.25, 0.5]

    await until(is_corrected, what="the difference is an adjustment")


async def test_what_reached_no_provider_leaves_its_assignment_to_the_next_attempt(
    nc: Nats, router: Running, client: Client
) -> None:
    known = await store_assignment(nc, router.settings, "own", provider="echo")
    asked_for: Json = {
        **ASKED,
        "request_id": known["assignment_id"],
        "context": {"assignment_id": known["assignment_id"]},
    }
    assert (await client.invoke(**asked_for)).error_code == "extension_unavailable"  # none listens
    async with serve_provider(nc, answers):
        assert (await client.invoke(**asked_for)).ok
    (event,) = await read_usage(nc, router.settings)
    assert event["event_id"] == assignment_identity("acme", known["assignment_id"])


async def test_a_worker_that_reported_first_does_not_make_an_invocation_free(
    nc: Nats, router: Running, client: Client
) -> None:
    known = await store_assignment(nc, router.settings, "own", provider="echo")
    event_id = assignment_identity("acme", known["assignment_id"])
    reported = {
        "version": "1",
        **known,
        "provider_id": "echo",
        "event_type": "chat",
        "latency_ms": 1,
        "cost": 0.0,
        "status": "success",
    }
    body = json.dumps({**reported, "timestamp": 1, "event_id": event_id}).encode()
    await nc.jetstream().publish(
        "beamline.usage.v1.metered", body, headers={"Nats-Msg-Id": event_id}
    )
    async with serve_provider(nc, answers):
        assert (
            await client.invoke(
                **ASKED,
                request_id=known["assignment_id"],
                context={"assignment_id": known["assignment_id"]},
            )
        ).ok
    events = await read_usage(nc, router.settings)
    assert len({event["event_id"] for event in events}) == 2
    assert cost_of(events) == COST


async def test_a_worker_that_reported_long_ago_does_not_make_an_invocation_free(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    """Beyond the duplicate window the stream would store the same identity again, and silver keeps
    the first alone.
    """
    settings = settings_for(nats_url, prefix, streams__usage__duplicate_window_ms=200)
    async with a_router(settings) as router, Client(nats_url) as client:
        await register(router, an_entry())
        known = await store_assignment(nc, settings, "own", provider="echo")
        await publish_result(
            nc,
            settings,
            a_result("own", cost=0.0, status="success", provider_id="echo", tenant_id="acme"),
        )
        claim = (
            f"$KV.{settings.buckets.assignments_known.name}.{reported_key(known['assignment_id'])}"
        )
        await until(
            lambda: _has_message(nc, f"KV_{settings.buckets.assignments_known.name}", claim),
            what="the report is marked",
        )
        await asyncio.sleep(0.5)  # above the duplicate window, by the server's own clock
        async with serve_provider(nc, answers):
            assert (
                await client.invoke(
                    **ASKED,
                    request_id=known["assignment_id"],
                    context={"assignment_id": known["assignment_id"]},
                )
            ).ok
        events = await read_usage(nc, settings)
    assert len({event["event_id"] for event in events}) == len(events) == 2
    assert cost_of(events) == COST


@pytest.mark.parametrize("is_answered", [True, False])
async def test_an_attempt_that_failed_before_the_report_makes_no_later_one_free(
    nc: Nats, nats_url: str, prefix: str, *, is_answered: bool
) -> None:
    """The first attempt failed, or reached no provider, so the next one may be the bill; but the
    worker has reported meanwhile.
    """
    settings = settings_for(nats_url, prefix, streams__usage__duplicate_window_ms=200)
    async with a_router(settings) as router, Client(nats_url) as client:
        await register(router, an_entry())
        known = await store_assignment(nc, settings, "own", provider="echo")
        asked_for: Json = {
            **ASKED,
            "request_id": known["assignment_id"],
            "context": {"assignment_id": known["assignment_id"]},
        }
        async with serve_provider(
            nc,
            says_no(503),
            "beamline.provider.echo.v1" if is_answered else "beamline.provider.absent.v1",
        ):
            assert not (await client.invoke(**asked_for)).ok
        await publish_result(
            nc,
            settings,
            a_result("own", cost=0.0, status="success", provider_id="echo", tenant_id="acme"),
        )
        bill = assignment_identity("acme", known["assignment_id"])
        await until(lambda: _is_billed(nc, router, bill), what="the result is metered")
        await asyncio.sleep(0.5)  # above the duplicate window, by the server's own clock
        async with serve_provider(nc, answers):
            assert (await client.invoke(**asked_for)).ok
        events = await read_usage(nc, settings)
    assert len({event["event_id"] for event in events}) == len(events) == 2 + is_answered
    assert cost_of(events) == COST


async def test_a_report_whose_mark_finds_no_room_at_first_makes_no_later_invocation_free(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    """The mark is stored before the event, and both before the ack: a mark that is refused, or
    lost, comes again.
    """
    settings = settings_for(
        nats_url, prefix, streams__usage__duplicate_window_ms=200, effects__retry_ms=50
    )
    async with a_router(settings) as router, Client(nats_url) as client:
        await register(router, an_entry())
        known = await store_assignment(nc, settings, "own", provider="echo")
        async with _without_room(nc, settings.buckets.assignments_known.name):
            await _publish_report(nc, router)
            await until(lambda: _is_waiting(router), what="the mark finds no room")
            assert await read_usage(nc, settings) == []
        await until(lambda: _has_booked(nc, router), what="the result is settled")
        events = await _invoke_later(nc, router, client, known)
    assert len({event["event_id"] for event in events}) == len(events) == 2
    assert cost_of(events) == COST


async def test_a_report_whose_router_ends_before_its_mark_is_stored_makes_no_later_invocation_free(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    """The result was not acknowledged, so another instance gets it, and stores the mark."""
    settings = settings_for(
        nats_url, prefix, streams__usage__duplicate_window_ms=200, results__ack_wait_ms=1000
    )
    async with AsyncExitStack() as full, a_router(settings) as router:
        await register(router, an_entry())
        known = await store_assignment(nc, settings, "own", provider="echo")
        await full.enter_async_context(_without_room(nc, settings.buckets.assignments_known.name))
        await _publish_report(nc, router)
        await until(lambda: _is_waiting(router), what="the mark finds no room")
    async with a_router(settings) as router, Client(nats_url) as client:
        await until(lambda: _has_booked(nc, router), what="the result is settled")
        events = await _invoke_later(nc, router, client, known)
    assert len({event["event_id"] for event in events}) == len(events) == 2
    assert cost_of(events) == COST


async def test_a_provider_that_is_registered_after_the_report_makes_no_later_invocation_free(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    """No instance knew then that the provider would be invoked."""
    settings = settings_for(nats_url, prefix, streams__usage__duplicate_window_ms=200)
    async with a_router(settings) as router, Client(nats_url) as client:
        known = await store_assignment(nc, settings, "own", provider="echo")
        await _report(nc, router, known)
        await until(lambda: _has_booked(nc, router), what="the result is settled")
        await register(router, an_entry())
        events = await _invoke_later(nc, router, client, known)
    assert len({event["event_id"] for event in events}) == len(events) == 2
    assert cost_of(events) == COST


async def test_an_assignment_that_may_have_been_reported_is_not_taken_over(
    nc: Nats, router: Running, client: Client
) -> None:
    """Its first attempt failed, and then an instance that did not know the provider had a result."""
    known = await store_assignment(nc, router.settings, "own", provider="echo")
    for key, value in (
        (invoked_key(known["assignment_id"]), ENDED),
        (unmarked_key("acme", "echo"), b"1"),
    ):
        await nc.jetstream().publish(
            f"$KV.{router.settings.buckets.assignments_known.name}.{key}", value
        )
    async with serve_provider(nc, answers):
        assert (
            await client.invoke(
                **ASKED,
                request_id=known["assignment_id"],
                context={"assignment_id": known["assignment_id"]},
            )
        ).ok
    (event,) = await read_usage(nc, router.settings)
    assert event["event_id"] != assignment_identity("acme", known["assignment_id"])


@asynccontextmanager
async def _without_room(nc: Nats, name: str) -> AsyncIterator[None]:
    """For the duration of the block the bucket takes nothing."""
    config = (await nc.jsm().stream_info(f"KV_{name}")).config
    await nc.jsm().update_stream(config, max_bytes=1)
    try:
        yield
    finally:
        await nc.jsm().update_stream(config, max_bytes=config.max_bytes)


async def _report(nc: Nats, router: Running, known: Json) -> None:
    """The worker reports that it was free, and that is metered."""
    await _publish_report(nc, router)
    bill = assignment_identity("acme", known["assignment_id"])
    await until(lambda: _is_billed(nc, router, bill), what="the result is metered")


async def _publish_report(nc: Nats, router: Running) -> None:
    await publish_result(
        nc,
        router.settings,
        a_result("own", cost=0.0, status="success", provider_id="echo", tenant_id="acme"),
    )


async def _is_waiting(router: Running) -> bool:
    return (
        await read_metric(
            router.ready.http, "router_storage_waiting", consumer=router.settings.results.durable
        )
        == 1
    )


async def _has_booked(nc: Nats, router: Running) -> bool:
    stream, durable = router.settings.streams.results.name, router.settings.results.durable
    info = await nc.jsm().consumer_info(stream, durable)
    return info.num_pending == info.num_ack_pending == 0


async def _invoke_later(nc: Nats, router: Running, client: Client, known: Json) -> list[Json]:
    """Every usage event, after an invocation of the assignment that the stream knows no duplicate
    of any more.
    """
    await asyncio.sleep(0.5)  # above the duplicate window, by the server's own clock
    async with serve_provider(nc, answers):
        assert (
            await client.invoke(
                **ASKED,
                request_id=known["assignment_id"],
                context={"assignment_id": known["assignment_id"]},
            )
        ).ok
    return await read_usage(nc, router.settings)


async def _is_billed(nc: Nats, router: Running, event_id: str) -> bool:
    return event_id in [event["event_id"] for event in await read_usage(nc, router.settings)]


async def test_each_retry_is_an_attempt_of_its_own(
    nc: Nats, router: Running, client: Client
) -> None:
    async with serve_provider(nc, says_no(503), "beamline.provider.retried.v1") as asked:
        assert not (await client.invoke(**{**ASKED, "provider_id": "retried"}, request_id="r-1")).ok
    events = await read_usage(nc, router.settings)
    assert len({event.get("event_id") for event in events}) == len(asked) == 3
    assert {event["request_id"] for event in events} == {"r-1"}


async def test_a_stream_that_comes_again_is_given_again(
    nc: Nats, router: Running, client: Client
) -> None:
    async def streams(message: Msg) -> None:
        for number in range(3):
            await message.respond(json.dumps({"data": f"{number} ", "done": False}).encode())
        await message.respond(
            json.dumps({"data": "", "done": True, "metadata": {"cost": 0.25}}).encode()
        )

    async with serve_provider(nc, streams) as asked:
        told = [
            [chunk async for chunk in client.invoke_stream(**ASKED, request_id="r-1")]
            for _ in range(2)
        ]
    assert len(asked) == 1
    assert [[chunk.data for chunk in chunks] for chunks in told] == [["0 ", "1 ", "2 ", ""]] * 2
    assert told[1][-1].metadata["repeated"] == "true"
    assert cost_of(await read_usage(nc, router.settings)) == COST


async def test_an_attempt_that_has_no_end_is_metered_at_its_deadline(
    nc: Nats, nats_url: str, prefix: str
) -> None:
    """As a killed router leaves one: its record stands, and its usage event was never stored."""
    settings = settings_for(nats_url, prefix, providers__unfinished_after_ms=200)
    async with a_router(settings) as router:
        await register(router, an_entry(timeout_ms=500))
        async with serve_provider(nc, hangs) as asked:
            body = json.dumps(
                {"provider_id": "echo", "tenant_id": "acme", "message_id": "r-1", "body": "hello"}
            ).encode()
            await nc.publish("beamline.provider.v1.invoke", body, reply=nc.new_inbox())
            await until(lambda: asked)
            bucket = f"$KV.{settings.buckets.invocations.name}.>"
            (message,) = [
                await nc.jsm().get_last_msg(f"KV_{settings.buckets.invocations.name}", bucket)
            ]
            record = json.loads(message.data or b"")
            await until(
                lambda: _is_empty(nc, settings.buckets.invocations.name),
                what="it has ended, and its record is gone",
            )
            lost = {**record, "attempt_id": "0" * 32, "request_id": "r-lost"}
            key = ids.key("acme", lost["attempt_id"])
            await nc.jetstream().publish(
                f"$KV.{settings.buckets.invocations.name}.{key}", json.dumps(lost).encode()
            )
            await until(
                lambda: _is_empty(nc, settings.buckets.invocations.name),
                what="the record that had no end",
            )
    events = await read_usage(nc, settings)
    assert [(event["request_id"], event["status"], event.get("event_id")) for event in events] == [
        ("r-1", "timeout", f"usage:{record['attempt_id']}"),
        ("r-lost", "timeout", f"usage:{'0' * 32}"),
    ]
    assert events[1]["estimated"] is True


async def _has_message(nc: Nats, stream: str, subject: str) -> bool:
    try:
        return bool((await nc.jsm().get_last_msg(stream, subject)).data)
    except NotFoundError:
        return False


async def _is_empty(nc: Nats, bucket: str) -> bool:
    return (await nc.jsm().stream_info(f"KV_{bucket}")).state.messages == 0


@pytest.mark.parametrize("first", ["whole", "stream"])
async def test_other_content_under_an_id_of_the_other_form_is_refused(
    nc: Nats, router: Running, client: Client, first: str
) -> None:
    other = {**ASKED, "prompt": "something else"}

    async def stream(asked: Json) -> None:
        async for _ in client.invoke_stream(**asked, request_id="r-1"):
            pass

    async with serve_provider(nc, answers) as calls:
        if first == "whole":
            assert (await client.invoke(**ASKED, request_id="r-1")).ok
            _, failed = await read_until_failure(client.invoke_stream(**other, request_id="r-1"))
            code, metadata = failed.code, failed.metadata
        else:
            await stream(ASKED)
            told = await client.invoke(**other, request_id="r-1")
            code, metadata = told.error_code, told.metadata
    assert (code, metadata["field"]) == ("invalid_request", "message_id")
    assert len(calls) == 1
