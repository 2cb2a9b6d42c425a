"""Attempts in their bucket and their events in the stream, on a real server."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client

from router.contracts.assignment_record import invoked_key
from router.contracts.invocation_record import InvocationRecord, draw_attempt_id, record_bytes
from router.contracts.usage import USAGE_SUBJECT, UsageEvent, assignment_identity
from router.core.message import Effect
from router.delivery.acked_publisher import NotPublished, PublishCallback
from router.delivery.api import JetStream
from router.delivery.publish_faults import SEALED, TOO_LARGE
from router.delivery.topology import bucket
from router.routing.extensions.failure import InvocationRefused
from router.routing.prices import PricedUsage
from router.routing.reports.invocation_events import make_attempt_event, make_unfinished_event
from router.services.assignment_claims import ENDED, AssignmentClaims
from router.services.attempt_store import AttemptStore
from router.services.unfinished_invocations import UnfinishedInvocations
from tests.support.delivery import connected
from tests.support.router_streams import read_stream
from tests.support.waiting import until

NOW = 1_800_000_000.0  # by the clock of these tests
WINDOW_S = 0.2  # the duplicate window of the stream, so that each test has what is older


class Bench:
    """A bucket of records, one of assignments, a usage stream, and what works on them."""

    def __init__(self, nc: Client, jetstream: JetStream, prefix: str) -> None:
        self.nc = nc
        self.bucket, self.assignments, self.usage = f"{prefix}_INVOCATIONS", f"{prefix}_KNOWN", f"{prefix}_USAGE"
        self.held: list[UsageEvent] = []
        self.store = AttemptStore(jetstream, self.bucket, self.held.append, patience_s=0.0)
        self.claims = AssignmentClaims(jetstream, self.assignments, self.bucket)
        self.now = NOW
        self.unfinished = UnfinishedInvocations(
            jetstream, self.bucket, self.usage, self.store, self.claims, lambda: self.now, after_s=1.0, window_s=WINDOW_S
        )

    async def make(self, jetstream: JetStream) -> None:
        for name in (self.bucket, self.assignments):
            spec = bucket(name)
            await jetstream.ask(f"STREAM.CREATE.{spec.name}", spec.to_json())
        await self.nc.jetstream().add_stream(name=self.usage, subjects=[USAGE_SUBJECT], duplicate_window=WINDOW_S)

    async def remove(self) -> None:
        for name in (f"KV_{self.bucket}", f"KV_{self.assignments}", self.usage):
            await self.nc.jsm().delete_stream(name)

    async def count_records(self) -> int:
        return (await self.nc.jsm().stream_info(f"KV_{self.bucket}")).state.messages

    async def read_events(self) -> list[tuple[str, float, str]]:
        stored = [json.loads(data) for _, data, _ in await read_stream(self.nc, self.usage)]
        return [(event["event_id"], event["cost"], event["status"]) for event in stored]


@pytest.fixture
async def bench(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Bench]:
    async with _a_bench(nc, nats_url, prefix) as bench:
        yield bench


@asynccontextmanager
async def _a_bench(nc: Client, nats_url: str, prefix: str) -> AsyncIterator[Bench]:
    async with connected(nats_url) as connection:
        bench = Bench(nc, JetStream(connection), prefix.upper())
        await bench.make(JetStream(connection))
        try:
            async with bench.store.open():
                yield bench
        finally:
            await bench.remove()


def a_record(tenant: str = "acme", **fields: object) -> InvocationRecord:
    given: dict[str, object] = {
        "attempt_id": draw_attempt_id(),
        "tenant_id": tenant,
        "provider_id": "echo",
        "event_type": "provider.invoke",
        "request_id": "r-1",
        "trace_id": "t-1",
        "begun_ms": round(NOW * 1000) - 60_000,
        "deadline_ms": round(NOW * 1000) - 30_000,
        "nanos": 5_000_000,
    }
    return InvocationRecord(**{**given, **fields})  # type: ignore[arg-type]


def an_event(record: InvocationRecord, cost: float = 0.25) -> UsageEvent:
    return make_attempt_event(record, PricedUsage(nanos=round(cost * 1e9)), "success", latency_ms=5, timestamp=1)


async def test_a_record_without_an_end_is_metered_once_at_its_deadline_and_goes(bench: Bench) -> None:
    record = a_record()
    await bench.store.keep(record)
    await asyncio.gather(*(bench.unfinished.meter_due() for _ in range(3)))
    assert await bench.read_events() == [(record.event_id, 0.005, "timeout")]
    await until(lambda: _is_empty(bench))


async def test_before_its_deadline_is_over_for_a_while_a_record_is_left_alone(bench: Bench) -> None:
    await bench.store.keep(a_record(deadline_ms=round(NOW * 1000) - 500))
    await bench.unfinished.meter_due()
    assert await bench.read_events() == []
    assert await bench.count_records() == 1


async def test_an_event_older_than_the_duplicate_window_is_not_metered_again(bench: Bench) -> None:
    """The router died after it stored the event, and no other one ran for a while."""
    record = a_record(begun_ms=0)
    await bench.store.keep(record)
    await bench.store.meter(record, an_event(record), is_bill=False)
    await asyncio.sleep(2 * WINDOW_S)  # the server's own clock
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [(record.event_id, 0.25, "success")]
    await until(lambda: _is_empty(bench))


@pytest.mark.parametrize("is_old", [False, True])
async def test_an_attempt_that_finds_its_assignment_billed_by_a_worker_has_an_identity_of_its_own(bench: Bench, *, is_old: bool) -> None:
    record = a_record(assignment_id="a-1", begun_ms=0 if is_old else round(NOW * 1000) - 10, reservation="life 7 chat month#3")
    assert await bench.claims.claim("a-1", record.key)
    await bench.store.keep(record)
    billed = assignment_identity("acme", "a-1")
    reported = json.dumps({"event_id": billed, "cost": 0.0, "status": "success"}).encode()
    await bench.nc.jetstream().publish(USAGE_SUBJECT, reported, headers={"Nats-Msg-Id": billed})
    if is_old:
        await asyncio.sleep(2 * WINDOW_S)
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [(billed, 0.0, "success"), (record.event_id, 0.005, "timeout")]
    assert (await read_stream(bench.nc, bench.usage))[1][2]["Router-Reservation"] == "life 0 chat"


@pytest.mark.parametrize("after", ["end", "take over"])
async def test_an_attempt_that_lost_its_assignment_leaves_the_reservation_to_the_bill(bench: Bench, after: str) -> None:
    """Its record has the header of the assignment's reservation, which ends once: with the bill."""
    record, other = a_record(assignment_id="a-1", reservation="life 7 chat month#3"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", record.key)
    await bench.store.keep(record)
    await bench.nc.jetstream().publish(f"$KV.{bench.assignments}.{invoked_key('a-1')}", ENDED)
    if after == "take over":
        await until(lambda: bench.claims.take_over("a-1", other.key))
    await until(lambda: _has_lost(bench, record))
    await bench.unfinished.meter_due()
    ((_, _, headers),) = await read_stream(bench.nc, bench.usage)
    assert (headers["Nats-Msg-Id"], headers["Router-Reservation"]) == (record.event_id, "life 0 chat")


async def _has_lost(bench: Bench, record: InvocationRecord) -> bool:
    return not await bench.claims.has(record)


async def test_a_record_that_cannot_be_read_stays_and_stops_no_other(bench: Bench) -> None:
    await bench.nc.jetstream().publish(f"$KV.{bench.bucket}.acme.broken", b'{"version": "9"}')
    record = a_record()
    await bench.nc.jetstream().publish(f"$KV.{bench.bucket}.{record.key}", record_bytes(record))
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [(record.event_id, 0.005, "timeout")]


async def test_where_a_router_died_the_attempt_that_ended_well_is_the_bill(bench: Bench) -> None:
    """The worker asks again, and its result has the assignment's identity: it must be the duplicate of what was answered."""
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key)
    await bench.store.keep(first)  # its router died
    assert not await bench.claims.claim("a-1", second.key)
    assert await bench.claims.take_over("a-1", second.key)
    await bench.store.meter(second, an_event(second), is_bill=True)
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [(assignment_identity("acme", "a-1"), 0.25, "success"), (first.event_id, 0.005, "timeout")]


async def test_an_attempt_that_ended_keeps_its_assignment(bench: Bench) -> None:
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key)
    bench.store.forget(await bench.store.keep(first))
    await until(lambda: _is_empty(bench))
    assert not await bench.claims.take_over("a-1", second.key)
    assert await bench.claims.has(first)


async def test_the_end_of_an_attempt_takes_nothing_from_the_one_that_took_its_place(bench: Bench) -> None:
    """Else a third one could be stored under the assignment's identity again, beyond the duplicate window, and cost nothing."""
    first, second, third = (a_record(assignment_id="a-1") for _ in range(3))
    assert await bench.claims.claim("a-1", first.key)
    await bench.store.keep(first)  # it goes on
    assert await bench.claims.take_over("a-1", second.key)
    await bench.claims.end("a-1", first.key)
    assert await bench.claims.has(second)
    assert not await bench.claims.take_over("a-1", third.key)


async def test_after_the_report_no_attempt_has_the_assignment(bench: Bench) -> None:
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key)
    await bench.claims.end("a-1", first.key)
    bench.claims.mark_reported("a-1")
    assert not await bench.claims.claim("a-1", second.key)
    assert not await bench.claims.take_over("a-1", second.key)


async def test_what_one_tenant_cannot_store_pauses_no_other(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = bench.store._publisher
    assert publisher is not None
    monkeypatch.setattr(publisher, "publish", _refuse(TOO_LARGE))
    with pytest.raises(InvocationRefused):
        await bench.store.keep(a_record("hog"))
    assert bench.store.is_paused("hog")
    assert not bench.store.is_paused("quiet")
    monkeypatch.setattr(publisher, "publish", _refuse(0))
    with pytest.raises(InvocationRefused):
        await bench.store.keep(a_record("hog"))
    assert bench.store.is_paused("quiet")


@pytest.mark.parametrize(
    ("err_code", "told"),
    [
        (TOO_LARGE, ("cannot_be_stored", {"cause": "too_large"})),
        (SEALED, ("cannot_be_stored", {"cause": "bucket_refuses"})),
        (0, ("overloaded", {})),
    ],
)
async def test_a_code_says_again_only_where_again_is_of_use(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, err_code: int, told: tuple[str, dict[str, str]]
) -> None:
    """Its patience is 0 s here."""
    publisher = bench.store._publisher
    assert publisher is not None
    monkeypatch.setattr(publisher, "publish", _refuse(err_code))
    with pytest.raises(InvocationRefused) as refused:
        await bench.store.keep(a_record())
    assert (refused.value.code, refused.value.details) == told


async def test_a_bucket_that_takes_records_again_is_not_held_against_later_ones(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = bench.store._publisher
    assert publisher is not None
    with monkeypatch.context() as patch:
        patch.setattr(publisher, "publish", _refuse(SEALED))
        with pytest.raises(InvocationRefused):
            await bench.store.keep(a_record())
    assert bench.store.make_refusal().code == "cannot_be_stored"
    await bench.store.keep(a_record())
    assert bench.store.make_refusal().code == "overloaded"


async def test_a_record_of_which_nothing_is_known_is_deleted_for_its_call_is_not_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = bench.store._publisher
    assert publisher is not None
    publish = publisher.publish

    def lose_ack(effects: Sequence[Effect], callback: PublishCallback) -> None:
        publish(effects, lambda _: callback(NotPublished("", 0, "no publish ack in time")))

    monkeypatch.setattr(publisher, "publish", lose_ack)
    with pytest.raises(InvocationRefused):
        await bench.store.keep(a_record())
    await until(lambda: _is_empty(bench))


async def test_a_caller_that_is_cancelled_leaves_no_record(bench: Bench) -> None:
    keeping = asyncio.create_task(bench.store.keep(a_record()))
    await asyncio.sleep(0)
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    await until(lambda: _is_empty(bench))


def test_the_event_of_an_unfinished_attempt_is_the_same_whichever_instance_makes_it() -> None:
    record = a_record(model="small", input_tokens=7, price="echo/small#2")
    event = make_unfinished_event(record)
    assert event == make_unfinished_event(record)
    assert (event.timestamp, event.latency_ms, event.is_estimated) == (record.deadline_ms, 30_000, True)
    assert (event.model, event.input_tokens, event.price, event.cost) == ("small", 7, "echo/small#2", 0.005)


def _refuse(err_code: int) -> Callable[[Sequence[Effect], PublishCallback], None]:
    def publish(_: Sequence[Effect], callback: PublishCallback) -> None:
        callback(NotPublished("", err_code, "as told"))

    return publish


async def _is_empty(bench: Bench) -> bool:
    return await bench.count_records() == 0
