"""A stream is full: the messages that must store something in it wait, each tenant within its
share; all others go on.
"""

import json

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.contracts.exec_assignment import ExecAssignment
from router.core.errors import Poison
from router.core.message import Effect
from router.delivery.consume import shares
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.original import NotReplayed, original_of
from router.operate.dead_letters.parse import parse
from router.sdk import StepResult, Worker
from router.work.commands.workers import make_places
from tests.support.delivery import connected
from tests.support.router_streams import (
    AlertRecorder,
    a_result,
    publish_result,
    read_assignments,
    read_usage,
    results_are_settled,
)
from tests.support.sdk import run_workers
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    ask,
    has_attempt_records,
    is_ready,
    is_settled,
    make_topology,
    read_dead_letters,
    read_metric,
    read_page,
)
from tests.support.waiting import until

BAD = b"not a request"
TIMES = {"effects__retry_ms": 50}  # a full stream refuses at once
SHARE = 8  # of a prefetch of 128: a quarter may wait, and of that a tenant a quarter
MANY = 40


def _settings(nats_url: str, prefix: str, **more: object) -> Settings:
    return settings_for(
        nats_url, prefix, **TIMES, decide__prefetch=128, results__prefetch=128, **more
    )


def _pushed(name: object, tenant: str = "acme") -> bytes:
    body = json.loads(a_request(name, push_assignment=True))
    body["message"]["tenant_id"] = tenant
    return json.dumps(body).encode()


async def test_a_full_assignments_stream_stops_only_what_pushes(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix, streams__assignments__max_bytes=300)
    inboxes, alarms = await Inboxes.under(nc, prefix), await AlertRecorder.heard_on(nc)
    async with a_router(settings) as router:
        await inboxes.publish(nc, settings, "push", _pushed("push"))
        await until(lambda: _waiting(router, settings.decide.durable, 1))
        for number in range(20):
            assert (await ask(nc, settings, a_request(number)))["ok"]
        assert inboxes.answers("push") == []
        assert not await is_ready(router.ready.http)
        assert (
            f"{settings.assignment.subjects[0]} cannot be stored"
            in (await read_page(router.ready.http, "/readyz"))[1]
        )
        assert alarms.causes("critical") == [f"storage_refused:{settings.decide.durable}"]
        assert (
            await read_metric(
                router.ready.http, "router_consumer_paused", consumer=settings.decide.durable
            )
            == 0
        )

        await make_topology(_settings(nats_url, prefix))
        await until(lambda: inboxes.answers("push"))
        assert [one["request_id"] for one in await read_assignments(nc, settings)] == ["r-push"]
        await until(lambda: is_ready(router.ready.http))
        await until(lambda: is_settled(nc, settings))
        await until(lambda: has_attempt_records(nc, settings, 0))


async def test_who_pushes_more_than_its_share_hears_overloaded_and_may_ask_again(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix, streams__assignments__max_bytes=300)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings) as router:
        for number in range(MANY):
            await inboxes.publish(nc, settings, number, _pushed(number))
        await until(lambda: len(inboxes.subjects) == MANY - SHARE)
        answers = [json.loads(answer) for heard in inboxes.heard.values() for answer in heard]
        assert {answer["error"]["code"] for answer in answers} == {"overloaded"}
        assert all(answer["error"]["details"]["retry_after_ms"] > 0 for answer in answers)
        # another tenant has a share of its own
        await inboxes.publish(nc, settings, "tenx", _pushed("tenx", "tenx"))
        await until(lambda: _waiting(router, settings.decide.durable, SHARE + 1))

        await make_topology(_settings(nats_url, prefix))
        await until(lambda: is_ready(router.ready.http))
        refused = next(
            number
            for number in range(MANY)
            if inboxes.answers(number) and b"overloaded" in inboxes.answers(number)[0]
        )
        assert (await ask(nc, settings, _pushed(refused)))["ok"]
        assert f"r-{refused}" in {one["request_id"] for one in await read_assignments(nc, settings)}


async def test_many_times_what_the_stream_holds_goes_through_it_while_workers_settle(
    monkeypatch: pytest.MonkeyPatch, nc: Client, nats_url: str, prefix: str
) -> None:
    """A day of pushes, scaled down: what is acknowledged or metered leaves its stream before its
    tenant's share is looked at.
    """
    monkeypatch.setattr(shares, "SHARES_EVERY_S", 0.01)
    settings = _settings(
        nats_url, prefix, streams__assignments__max_bytes=30_000, assignment__removal_every_ms=20
    )
    js = nc.jetstream()
    async with a_router(settings) as router:
        worker = await js.pull_subscribe(
            settings.assignment.subjects[0], "w", stream=settings.streams.assignments.name
        )
        for number in range(200):
            await until(
                lambda: _is_at_most(nc, settings, 12_000),
                what="finished assignments to leave the stream",
            )
            answer = await ask(nc, settings, _pushed(number))
            assert answer["ok"], (number, answer)
            (assigned,) = await worker.fetch(1, timeout=60)
            if number % 2:
                await assigned.ack_sync(timeout=60)
            else:  # one that forgets to acknowledge, and tells its result
                done = json.loads(assigned.data)
                await publish_result(
                    nc,
                    settings,
                    a_result(
                        number, assignment_id=done["assignment_id"], request_id=done["request_id"]
                    ),
                )
        assert (await nc.jsm().stream_info(settings.streams.assignments.name)).state.last_seq == 200
        await until(lambda: _removed(router, 100))
        assert (await ask(nc, settings, _pushed(7)))["ok"]
        assert (
            await nc.jsm().stream_info(settings.streams.assignments.name)
        ).state.last_seq == 200, "the same request is no new work"


async def _is_at_most(nc: Client, settings: Settings, size: int) -> bool:
    return (await nc.jsm().stream_info(settings.streams.assignments.name)).state.bytes <= size


async def _removed(router: Running, count: int) -> bool:
    return await read_metric(router.ready.http, "router_assignments_removed_total") >= count


async def test_full_dead_letters_stop_only_what_failed(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix, streams__dlq__max_bytes=300)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings) as router:
        for number in range(3):
            await inboxes.publish(nc, settings, f"bad-{number}", BAD + b"%d" % number)
        await until(lambda: _waiting(router, settings.decide.durable, 3))
        assert (await ask(nc, settings, a_request("good")))["ok"]
        assert (await ask(nc, settings, _pushed("push")))["ok"]
        assert len(inboxes) == 0

        await make_topology(_settings(nats_url, prefix))
        await until(lambda: len(inboxes.subjects) == 3)
        assert len(await read_dead_letters(nc, settings)) == 3


async def test_a_flood_of_what_fails_is_answered_when_its_dead_letters_find_no_room(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Its requester hears of the failure; that no dead letter was stored is counted, logged and
    alarmed, never silent.
    """
    settings = _settings(nats_url, prefix, streams__dlq__max_bytes=300)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings) as router:
        for number in range(MANY):
            await inboxes.publish(nc, settings, number, BAD + b"%d" % number)
        await until(lambda: len(inboxes.subjects) == MANY - SHARE)
        assert all(b"invalid_request" in heard[0] for heard in inboxes.heard.values())
        skipped = await read_metric(
            router.ready.http,
            "router_storage_refused_total",
            consumer=settings.decide.durable,
            what="dead_letter_omitted",
        )
        assert skipped == MANY - SHARE
        assert (await ask(nc, settings, a_request("good")))["ok"]


@pytest.mark.parametrize("slots", [1, 4])
async def test_full_dead_letters_stop_no_worker_but_what_it_gave_up(
    nc: Client, nats_url: str, prefix: str, slots: int
) -> None:
    settings = _settings(nats_url, prefix, streams__dlq__max_bytes=300)

    def work(assignment: ExecAssignment) -> StepResult:
        if assignment.request_id == "r-hopeless":
            raise Poison("it can never be done")
        return StepResult(cost=0.5)

    subject, places = settings.assignment.subjects[0], make_places(settings)
    worker = Worker(
        settings.nats, work, worker_id="w-1", subject=subject, topology=places, slots=slots
    )
    async with a_router(settings), run_workers(worker):
        for name in ("hopeless", *range(5)):
            assert (await ask(nc, settings, _pushed(name)))["ok"]
        await until(lambda: _metered(nc, settings, 5))

        await make_topology(_settings(nats_url, prefix))
        await until(lambda: _stored(nc, settings.streams.dlq.name, 1))


async def _metered(nc: Client, settings: Settings, count: int) -> bool:
    return len(await read_usage(nc, settings)) == count


async def _stored(nc: Client, stream: str, count: int) -> bool:
    return (await nc.jsm().stream_info(stream)).state.messages == count


async def test_a_full_usage_stream_stops_only_what_is_metered(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Results beyond the bound are sent back without spending an attempt; not one is lost."""
    settings = _settings(nats_url, prefix, streams__usage__max_bytes=300, effects__full_retry_ms=50)
    async with a_router(settings) as router:
        for number in range(MANY):
            await publish_result(nc, settings, a_result(number))
        await until(lambda: _sent_back(router, settings.results.durable))
        await publish_result(nc, settings, b"not a result")
        await until(lambda: read_dead_letters(nc, settings))
        assert (await ask(nc, settings, _pushed("push")))["ok"]

        await make_topology(_settings(nats_url, prefix))
        await until(lambda: results_are_settled(nc, settings))
        assert sorted(event["assignment_id"] for event in await read_usage(nc, settings)) == sorted(
            f"a-{number}" for number in range(MANY)
        )
        assert len(await read_dead_letters(nc, settings)) == 1
        await until(lambda: is_ready(router.ready.http))


async def test_a_tenant_that_takes_more_than_its_share_leaves_the_rest_to_others(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Above the half of the stream a tenant that holds a quarter hears overloaded; the others push."""
    settings = _settings(nats_url, prefix, streams__assignments__max_bytes=60_000)
    async with a_router(settings) as router:
        for number in range(80):
            if await _is_over(router, "acme"):
                break
            assert (await ask(nc, settings, _pushed(number)))["ok"]
        refused = await ask(nc, settings, _pushed("more"))
        assert (refused["error"]["code"], refused["error"]["details"]["cause"]) == (
            "overloaded",
            "tenant_share",
        )
        assert all(
            [
                (await ask(nc, settings, _pushed(f"t-{number}", "tenx")))["ok"]
                for number in range(10)
            ]
        )
        assert (await ask(nc, settings, a_request("plain")))["ok"]
        assert await is_ready(router.ready.http)


async def test_a_tenant_that_fills_the_dead_letters_keeps_no_payloads_and_then_no_dead_letters(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix, streams__dlq__max_bytes=60_000)
    async with a_router(settings) as router:
        while not await _is_over_letters(router, "acme"):
            assert not (await ask(nc, settings, _bad("acme")))["ok"]
        await ask(nc, settings, _bad("acme"))
        assert "message" not in (await read_dead_letters(nc, settings))[-1]
        assert await read_metric(router.ready.http, "router_dlq_over_share_total") > 0
        while not await read_metric(
            router.ready.http, "router_storage_refused_total", what="dead_letter_omitted"
        ):
            assert await _is_over_letters(router, "acme")
            assert not (await ask(nc, settings, _bad("acme")))["ok"]
        before = len(await read_dead_letters(nc, settings))
        await ask(nc, settings, _bad("tenx"))
        kept = await read_dead_letters(nc, settings)
        assert (len(kept), kept[-1]["tenant_id"], "payload" in kept[-1]["message"]) == (
            before + 1,
            "tenx",
            True,
        )
        assert await read_metric(router.ready.http, "router_dlq_total") == len(kept)


def _bad(tenant: str) -> bytes:
    """It has no type."""
    return json.dumps({"message": {"tenant_id": tenant, "payload": "x" * 1000}}).encode()


async def _is_over(router: Running, tenant: str) -> bool:
    """As the next look finds it, which is now."""
    context = router.service._context
    assert context is not None
    await context.assignment_shares.look()
    return context.assignment_shares.is_over(tenant)


async def _is_over_letters(router: Running, tenant: str) -> bool:
    context = router.service._context
    assert context is not None
    await context.dead_letter_shares.look()
    return context.dead_letter_shares.is_over(tenant)


async def test_a_full_bucket_of_records_stops_only_what_pushes(
    nc: Client, nats_url: str, prefix: str
) -> None:
    settings = _settings(nats_url, prefix, buckets__assignments_known__max_bytes=300)
    async with a_router(settings) as router:
        refused = await ask(nc, settings, _pushed("push"))
        assert (refused["error"]["code"], refused["error"]["details"]["cause"]) == (
            "overloaded",
            "storage_full",
        )
        assert (await ask(nc, settings, a_request("plain")))["ok"]
        assert await is_ready(router.ready.http)


async def test_large_failures_do_not_fill_the_dead_letters_and_can_be_replayed(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """A dead letter keeps a bounded payload; of a longer one its hash and its place, from where a
    replay takes it.
    """
    settings = _settings(nats_url, prefix, streams__dlq__max_bytes=1_000_000)
    large = [b"%d" % number + b"x" * 200_000 for number in range(20)]
    async with a_router(settings):
        for data in large:
            await ask(nc, settings, data)
        kept = await read_dead_letters(nc, settings)
        assert [letter["original_payload_bytes"] for letter in kept] == [
            len(data) for data in large
        ]
        assert (await nc.jsm().stream_info(settings.streams.dlq.name)).state.bytes < 40_000

        original = await _original(settings, 1)
        assert isinstance(original, Effect)
        assert (original.subject, original.data) == (settings.decide.subject, large[0])
        await nc.jsm().delete_msg(settings.streams.decide.name, 1)
        gone = await _original(settings, 1)
        assert isinstance(gone, NotReplayed)
        assert f"neither the dead letter nor {settings.streams.decide.name} 1" in gone.cause


async def _original(settings: Settings, sequence: int) -> Effect | NotReplayed:
    async with connected(str(settings.nats.url[0])) as connection:
        jetstream = JetStream(connection)
        stored = await jetstream.message(settings.streams.dlq.name, sequence)
        assert stored is not None
        return await original_of(jetstream, parse(stored))


async def _waiting(router: Running, durable: str, count: int) -> bool:
    return await read_metric(router.ready.http, "router_storage_waiting", consumer=durable) == count


async def _sent_back(router: Running, durable: str) -> bool:
    return (
        await read_metric(
            router.ready.http, "router_storage_refused_total", consumer=durable, what="sent_back"
        )
        > 0
    )
