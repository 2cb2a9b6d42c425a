"""A request that is pushed: its assignment is stored once, before the decision is answered,
whatever is away.
"""

from nats.aio.client import Client

from router.config import Settings
from tests.support.router_streams import AlertRecorder, read_assignments
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    Inboxes,
    a_request,
    ask,
    has_attempt_records,
    is_ready,
    is_settled,
    make_topology,
    read_acks,
    read_dead_letters,
    read_metric,
    read_page,
)
from tests.support.waiting import until

FAST = {"effects__publish_timeout_ms": 300, "effects__retry_ms": 50, "decide__ack_wait_ms": 400}
KEPT_ALIVE = 4  # signals of a message: three come in an ack wait


def _settings(nats_url: str, prefix: str, **more: object) -> Settings:
    return settings_for(nats_url, prefix, **{**FAST, **more})


def _pushed(name: object) -> bytes:
    return a_request(name, push_assignment=True)


async def test_who_hears_the_decision_finds_its_assignment_stored(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Issue 3, assignments: PubAck before the reply."""
    settings = _settings(nats_url, prefix)
    async with a_router(settings) as router:
        for number in range(5):
            answer = await ask(nc, settings, _pushed(number))
            newest = (await read_assignments(nc, settings))[-1]
            assert (newest["request_id"], newest["decision"]) == (f"r-{number}", answer["decision"])
        assert await read_metric(router.ready.http, "router_assignments_published_total") == 5
        await ask(nc, settings, a_request("unpushed"))
        assert len(await read_assignments(nc, settings)) == 5


async def test_two_routers_assign_one_request_once(nc: Client, nats_url: str, prefix: str) -> None:
    """The stored assignment is the decision, also where the other router stored it."""
    settings = _settings(nats_url, prefix, reply__listener=False)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings), a_router(settings):
        for copy in range(10):
            headers = {"Nats-Msg-Id": f"m-{copy}", "Reply-To": inboxes.of(copy)}
            await nc.publish(settings.decide.subject, _pushed("same"), headers=headers)
        # a redelivery may answer twice, with the same bytes
        await until(lambda: len(inboxes.subjects) == 10)
        (assigned,) = await read_assignments(nc, settings)
    decisions = {answer for answers in inboxes.heard.values() for answer in answers}
    assert len(decisions) == 1
    assert assigned["decision"]["provider_id"].encode() in decisions.pop()


async def test_with_a_full_stream_its_request_waits_and_is_answered_in_the_end(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Issue 3, assignments: what cannot be stored is neither acknowledged nor answered."""
    settings = _settings(
        nats_url, prefix, streams__assignments__max_bytes=300, effects__publish_timeout_ms=20_000
    )
    inboxes, alarms = await Inboxes.under(nc, prefix), await AlertRecorder.heard_on(nc)
    async with a_router(settings) as router:
        await inboxes.publish(nc, settings, 1, _pushed(1))
        await _nothing_happens(nc, settings, router, "cannot be stored")
        assert (len(inboxes), alarms.causes("critical")) == (
            0,
            [f"storage_refused:{settings.decide.durable}"],
        )
        await make_topology(_settings(nats_url, prefix))
        await _all_ends_well(nc, settings, router, inboxes, 1)


async def test_without_the_bucket_pushed_requests_wait_and_the_others_are_answered(
    nc: Client, nats_url: str, prefix: str
) -> None:
    # else the router makes the bucket again
    settings = _settings(nats_url, prefix, effects__patience_ms=600_000, topology="check")
    await make_topology(settings)
    inboxes = await Inboxes.under(nc, prefix)
    async with a_router(settings) as router:
        await nc.jetstream().delete_key_value(settings.buckets.assignments_known.name)
        for number in (1, 2, 3):
            await inboxes.publish(nc, settings, number, _pushed(number))
        await _nothing_happens(nc, settings, router, settings.buckets.assignments_known.name)
        await inboxes.publish(nc, settings, 4, a_request(4))
        await until(lambda: inboxes.subjects)
        await make_topology(settings)
        await _all_ends_well(nc, settings, router, inboxes, 4)
        assert sorted(one["request_id"] for one in await read_assignments(nc, settings)) == [
            "r-1",
            "r-2",
            "r-3",
        ]


async def _nothing_happens(nc: Client, settings: Settings, router: Running, cause: str) -> None:
    await until(lambda: _waits(router))
    assert cause in (await read_page(router.ready.http, "/readyz"))[1]
    jsm, names = nc.jsm(), (settings.streams.decide.name, settings.decide.durable)
    before = await jsm.consumer_info(*names)
    assert before.num_ack_pending > 0
    assert await read_acks(nc, *names, messages=before.num_ack_pending, signals=KEPT_ALIVE) == {
        b"+WPI"
    }
    after = await jsm.consumer_info(*names)
    assert after.num_ack_pending >= before.num_ack_pending
    assert after.ack_floor.stream_seq == before.ack_floor.stream_seq


async def _all_ends_well(
    nc: Client, settings: Settings, router: Running, inboxes: Inboxes, count: int
) -> None:
    await until(lambda: is_ready(router.ready.http))
    await until(lambda: is_settled(nc, settings))
    await until(lambda: len(inboxes.subjects) == count)
    assert all(b'"ok":true' in answer for answers in inboxes.heard.values() for answer in answers)
    await until(lambda: has_attempt_records(nc, settings, 0))
    assert await read_dead_letters(nc, settings) == []


WAITING = ("router_consumer_paused", "router_storage_waiting", "router_bucket_waiting")


async def _waits(router: Running) -> bool:
    return any([await read_metric(router.ready.http, name) > 0 for name in WAITING])
