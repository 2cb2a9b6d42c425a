"""Attempts in their bucket and their events in the stream, on a real server."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace
from nats.aio.client import Client

from router.budgets.model.held_cost import ALL_HELD
from router.budgets.model.prices import PricedUsage
from router.contracts.assignment import Assignment
from router.contracts.assignment_record import invoked_key, reported_key, unmarked_key
from router.contracts.stored_record import record_bytes
from router.contracts.usage import USAGE_SUBJECT, UsageEvent, assignment_identity
from router.core.errors import BrokerUnavailable
from router.core.message import Effect
from router.delivery.publish.acked_publisher import NotPublished, PublishCallback
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import SEALED, TOO_LARGE, TOO_LARGE_CODES
from router.delivery.wire.topology import bucket
from router.extensions.model.failure import InvocationRefused
from router.work.assignment_claims import ENDED, AssignmentClaims
from router.work.invocations.attempt_store import AttemptStore
from router.work.invocations.unfinished_invocations import UnfinishedInvocations
from router.work.model.invocation_record import (
    InvocationRecord,
    draw_attempt_id,
    make_attempt_event,
    make_unfinished_event,
)
from tests.support.delivery import connected
from tests.support.router_streams import read_stream
from tests.support.waiting import until
from tests.support.workers import an_assignment

NOW = 1_800_000_000.0  # by the clock of these tests
DEADLINE_MS = round(NOW * 1000)  # of an attempt
WINDOW_S = 0.2  # the duplicate window of the stream, so that each test has what is older


class Bench:
    """A bucket of records, one of assignments, a usage stream, and what works on them."""

    def __init__(self, nc: Client, jetstream: JetStream, prefix: str) -> None:
        self.nc = nc
        self.bucket, self.assignments, self.usage = (
            f"{prefix}_INVOCATIONS",
            f"{prefix}_KNOWN",
            f"{prefix}_USAGE",
        )
        self.held_stream = f"{prefix}_HELD"
        self.held: list[UsageEvent] = []
        self.store = AttemptStore(jetstream, self.bucket, self.held.append, patience_s=0.0)
        self.claims = AssignmentClaims(jetstream, self.assignments, self.bucket, window_s=WINDOW_S)
        self.now = NOW
        self.unfinished = UnfinishedInvocations(
            jetstream,
            self.bucket,
            self.usage,
            self.store,
            self.claims,
            lambda: self.now,
            after_s=1.0,
            window_s=WINDOW_S,
        )

    async def make(self, jetstream: JetStream) -> None:
        for name in (self.bucket, self.assignments):
            spec = bucket(name)
            await jetstream.ask(f"STREAM.CREATE.{spec.name}", spec.to_json())
        await self.nc.jetstream().add_stream(
            name=self.usage, subjects=[USAGE_SUBJECT], duplicate_window=WINDOW_S
        )
        await self.nc.jetstream().add_stream(name=self.held_stream, subjects=[ALL_HELD])

    async def remove(self) -> None:
        for name in (f"KV_{self.bucket}", f"KV_{self.assignments}", self.usage, self.held_stream):
            await self.nc.jsm().delete_stream(name)

    async def put_claim(self, assignment_id: str, record: InvocationRecord) -> None:
        await self.put_key(invoked_key(assignment_id), record.key.encode())

    async def put_key(self, key: str, value: bytes) -> None:
        await self.nc.jetstream().publish(f"$KV.{self.assignments}.{key}", value)

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
        jetstream = JetStream(connection, timeout_s=60)
        bench = Bench(nc, jetstream, prefix.upper())
        await bench.make(jetstream)
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
    return make_attempt_event(
        record,
        PricedUsage(nanos=round(cost * 1e9), estimated=False),
        "success",
        latency_ms=5,
        timestamp=1,
    )


async def test_a_record_without_an_end_is_metered_once_at_its_deadline_and_goes(
    bench: Bench,
) -> None:
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
async def test_an_attempt_that_finds_its_assignment_billed_by_a_worker_has_an_identity_of_its_own(
    bench: Bench, *, is_old: bool
) -> None:
    record = a_record(
        assignment_id="a-1",
        begun_ms=0 if is_old else round(NOW * 1000) - 10,
        reservation="life 7 chat month#3",
    )
    assert await bench.claims.claim("a-1", record.key) is not None
    await bench.store.keep(record)
    billed = assignment_identity("acme", "a-1")
    reported = json.dumps({"event_id": billed, "cost": 0.0, "status": "success"}).encode()
    await bench.nc.jetstream().publish(USAGE_SUBJECT, reported, headers={"Nats-Msg-Id": billed})
    if is_old:
        await asyncio.sleep(2 * WINDOW_S)
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [
        (billed, 0.0, "success"),
        (record.event_id, 0.005, "timeout"),
    ]
    assert (await read_stream(bench.nc, bench.usage))[1][2]["Router-Reservation"] == "life 0 chat"


@pytest.mark.parametrize("after", ["end", "take over"])
async def test_an_attempt_that_lost_its_assignment_leaves_the_reservation_to_the_bill(
    bench: Bench, after: str
) -> None:
    """Its record has the header of the assignment's reservation, which ends once: with the bill."""
    record, other = (
        a_record(assignment_id="a-1", reservation="life 7 chat month#3"),
        a_record(assignment_id="a-1"),
    )
    assert await bench.claims.claim("a-1", record.key) is not None
    await bench.store.keep(record)
    await bench.nc.jetstream().publish(f"$KV.{bench.assignments}.{invoked_key('a-1')}", ENDED)
    if after == "take over":
        await until(lambda: bench.claims.take_over("a-1", other.key))
    await until(lambda: _has_lost(bench, record))
    await bench.unfinished.meter_due()
    ((_, _, headers),) = await read_stream(bench.nc, bench.usage)
    assert (headers["Nats-Msg-Id"], headers["Router-Reservation"]) == (
        record.event_id,
        "life 0 chat",
    )


async def _has_lost(bench: Bench, record: InvocationRecord) -> bool:
    return not await bench.claims.has(record)


async def test_a_record_that_cannot_be_read_stays_and_stops_no_other(bench: Bench) -> None:
    await bench.nc.jetstream().publish(f"$KV.{bench.bucket}.acme.broken", b'{"version": "9"}')
    record = a_record()
    await bench.nc.jetstream().publish(f"$KV.{bench.bucket}.{record.key}", record_bytes(record))
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [(record.event_id, 0.005, "timeout")]


async def test_where_a_router_died_the_attempt_that_ended_well_is_the_bill(bench: Bench) -> None:
    """The worker asks again, and its result has the assignment's identity: it must be the duplicate
    of what was answered.
    """
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key) is not None
    await bench.store.keep(first)  # its router died
    assert await bench.claims.claim("a-1", second.key) is None
    assert await bench.claims.take_over("a-1", second.key)
    await bench.store.meter(second, an_event(second), is_bill=True)
    await bench.unfinished.meter_due()
    assert await bench.read_events() == [
        (assignment_identity("acme", "a-1"), 0.25, "success"),
        (first.event_id, 0.005, "timeout"),
    ]


async def test_a_bill_whose_router_died_before_it_deleted_the_record_is_no_second_one(
    bench: Bench,
) -> None:
    """The worker asked again, and the second attempt took the key: the first one has its event all
    the same.
    """
    bench.now = time.time()  # the server's own clock says when an event was stored
    begun_ms = round(bench.now * 1000) - 10
    first, second = (
        a_record(assignment_id="a-1", begun_ms=begun_ms, deadline_ms=begun_ms - 30_000)
        for _ in range(2)
    )
    assert await bench.claims.claim("a-1", first.key) is not None
    await bench.store.keep(first)
    await bench.store.meter(first, an_event(first), is_bill=True)
    assert await bench.claims.take_over("a-1", second.key)
    await bench.store.meter(second, an_event(second, 0.5), is_bill=True)
    stored = await bench.read_events()
    assert stored == [
        (assignment_identity("acme", "a-1"), 0.25, "success"),
        (second.event_id, 0.5, "success"),
    ]
    await bench.unfinished.meter_due()
    assert await bench.read_events() == stored
    await until(lambda: _is_empty(bench))


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("is_bill", [False, True])
async def test_a_router_that_died_before_its_notice_leaves_no_cost_that_operators_never_hear_of(
    bench: Bench, *, is_bill: bool, is_old: bool
) -> None:
    """The event is stored, at the bound of what was told, and nothing says so: another router does."""
    bench.now = time.time()  # the server's own clock says when an event was stored
    begun_ms = round(bench.now * 1000) - (10_000 if is_old else 10)
    given = {"assignment_id": "a-1"} if is_bill else {}
    record = a_record(begun_ms=begun_ms, deadline_ms=begun_ms - 30_000, **given)
    assert not is_bill or await bench.claims.claim("a-1", record.key) is not None
    await bench.store.keep(record)
    told = replace(an_event(record), told_cost=9.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.store, "_hold", _hold_nothing)
        await bench.store.meter(record, told, is_bill=is_bill)
    await bench.unfinished.meter_due()
    assert len(await bench.read_events()) == 1
    ((_, notice, _),) = await read_stream(bench.nc, bench.held_stream)
    assert (json.loads(notice)["told_cost"], json.loads(notice)["cost"]) == (9.0, 0.25)
    assert [event.told_cost for event in bench.held] == [9.0]
    await until(lambda: _is_empty(bench))


async def test_a_known_event_that_cannot_be_read_now_is_no_reason_to_meter_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = a_record(begun_ms=0)
    await bench.store.keep(record)
    await bench.store.meter(record, an_event(record), is_bill=False)
    await asyncio.sleep(2 * WINDOW_S)  # the server's own clock
    monkeypatch.setattr(bench.store, "read_stored", _read_nothing)
    await bench.unfinished.meter_due()
    assert (len(await bench.read_events()), await bench.count_records()) == (1, 1)


async def test_an_end_that_cannot_be_written_now_is_written_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the key stays with an attempt that is no bill, and the one that ends well is billed
    beside the worker's result.
    """
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key) is not None
    async with bench.claims.open():
        with monkeypatch.context() as patch:
            patch.setattr(bench.claims._claims, "put", _is_away)
            await bench.claims.end("a-1", first.key)
        await until(lambda: not bench.claims.unsure)
    assert await bench.claims.claim("a-1", second.key) is not None


async def test_an_attempt_that_ended_keeps_its_assignment(bench: Bench) -> None:
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key) is not None
    bench.store.forget(await bench.store.keep(first))
    await until(lambda: _is_empty(bench))
    assert not await bench.claims.take_over("a-1", second.key)
    assert await bench.claims.has(first)


async def test_the_end_of_an_attempt_takes_nothing_from_the_one_that_took_its_place(
    bench: Bench,
) -> None:
    """Else a third one could be stored under the assignment's identity again, beyond the duplicate
    window, and cost nothing.
    """
    first, second, third = (a_record(assignment_id="a-1") for _ in range(3))
    assert await bench.claims.claim("a-1", first.key) is not None
    await bench.store.keep(first)  # it goes on
    assert await bench.claims.take_over("a-1", second.key)
    await bench.claims.end("a-1", first.key)
    assert await bench.claims.has(second)
    assert not await bench.claims.take_over("a-1", third.key)


async def test_what_reached_no_provider_gives_back_its_own_claim_alone(bench: Bench) -> None:
    """Else the one that took its place loses it, and a third one could be stored under the
    assignment's identity again, for nothing.
    """
    first, second, third = (a_record(assignment_id="a-1") for _ in range(3))
    claimed = await bench.claims.claim("a-1", first.key)
    assert claimed is not None
    await bench.store.keep(first)
    assert await bench.claims.take_over("a-1", second.key)
    bench.claims.release("a-1", claimed)
    assert await bench.claims.claim("a-1", third.key) is None
    assert await bench.claims.has(second)


async def test_after_a_release_the_next_attempt_is_the_first(bench: Bench) -> None:
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    claimed = await bench.claims.claim("a-1", first.key)
    assert claimed is not None
    bench.claims.release("a-1", claimed)
    assert await bench.claims.claim("a-1", second.key) is not None
    assert await bench.claims.has(second)


@pytest.mark.parametrize("taken", [False, True])
async def test_a_claim_whose_caller_is_cancelled_is_given_back_unless_another_attempt_has_it(
    bench: Bench, *, taken: bool
) -> None:
    """It may be stored all the same, and its attempt never was: the assignment would wait for its
    bill for ever.
    """
    first, second, third = (a_record(assignment_id="a-1") for _ in range(3))
    async with bench.claims.open():
        await _cancel_claim(bench, first)
        if taken:
            await bench.put_claim("a-1", second)
        await until(lambda: not bench.claims.unsure)
    assert not await bench.claims.has(first)
    assert await bench.claims.has(second) is taken
    assert (await bench.claims.claim("a-1", third.key) is None) is taken


async def test_the_claims_in_doubt_of_one_tenant_leave_room_for_another_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.work.assignment_claims.SHARE", 2)
    monkeypatch.setattr("router.work.assignment_claims.MAX_UNSURE", 3)
    with monkeypatch.context() as patch:
        patch.setattr(bench.claims._claims, "_write", _is_away)
        for attempt in ("hog.1", "hog.2", "hog.3", "quiet.1", "other.1"):
            with pytest.raises(BrokerUnavailable):
                await bench.claims.claim(f"a-{attempt}", attempt)
    assert [attempt for _, attempt in bench.claims.unsure] == ["hog.1", "hog.2", "quiet.1"]
    async with bench.claims.open():
        await until(lambda: not bench.claims.unsure)
    assert not bench.claims._unsure_of


async def test_a_claim_that_is_in_doubt_when_its_process_stops_is_given_back(bench: Bench) -> None:
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    async with bench.claims.open():
        await _cancel_claim(bench, first)
    assert await bench.claims.claim("a-1", second.key) is not None


async def test_after_the_report_no_attempt_has_the_assignment(bench: Bench) -> None:
    first, second = a_record(assignment_id="a-1"), a_record(assignment_id="a-1")
    assert await bench.claims.claim("a-1", first.key) is not None
    await bench.claims.end("a-1", first.key)
    await bench.put_key(reported_key("a-1"), b"reported")
    assert not await bench.claims.take_over("a-1", second.key)
    assert not await bench.claims.may_claim(_an_assignment(age_s=0.0), DEADLINE_MS)


async def test_an_old_assignment_whose_worker_may_have_reported_unmarked_has_no_attempt(
    bench: Bench,
) -> None:
    """Its provider was registered later: the stream may have forgotten the report's event."""
    old, young = _an_assignment(age_s=WINDOW_S * 2), _an_assignment(age_s=WINDOW_S / 4)
    assert await bench.claims.may_claim(old, DEADLINE_MS)
    for until_ms, may_claim in ((old.requested_at_ms - 1, True), (old.requested_at_ms, False)):
        await bench.put_key(unmarked_key("acme", "echo"), b"%d" % until_ms)
        assert await bench.claims.may_claim(old, DEADLINE_MS) is may_claim
    assert await bench.claims.may_claim(replace(old, tenant_id="globex"), DEADLINE_MS)
    await bench.put_key(unmarked_key("acme", "echo"), b"%d" % young.requested_at_ms)
    assert await bench.claims.may_claim(young, DEADLINE_MS)
    assert not await bench.claims.may_claim(young, DEADLINE_MS + 1000)


@pytest.mark.parametrize("note", [b"", b"soon", b"-1", b"9" * 17])
async def test_a_note_that_cannot_be_read_is_no_reason_for_a_free_invocation(
    bench: Bench, note: bytes
) -> None:
    await bench.put_key(unmarked_key("acme", "echo"), note)
    assert not await bench.claims.may_claim(_an_assignment(age_s=WINDOW_S * 2), DEADLINE_MS)


def _an_assignment(age_s: float) -> Assignment:
    requested_at_ms = DEADLINE_MS - round(age_s * 1000)
    return an_assignment(
        assignment_id="a-1", tenant_id="acme", provider_id="echo", requested_at_ms=requested_at_ms
    )


@pytest.mark.parametrize("code", sorted(TOO_LARGE_CODES))
async def test_what_one_tenant_cannot_store_pauses_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    publisher = bench.store._publisher
    assert publisher is not None
    monkeypatch.setattr(publisher, "publish", _refuse(code))
    with pytest.raises(InvocationRefused):
        await bench.store.keep(a_record("hog"))
    assert bench.store.is_paused("hog")
    assert not bench.store.is_paused("quiet")
    monkeypatch.setattr(publisher, "publish", _refuse(0))
    with pytest.raises(InvocationRefused):
        await bench.store.keep(a_record("hog"))
    assert bench.store.is_paused("quiet")


async def test_what_the_server_takes_from_no_client_is_not_sent_and_pauses_its_tenant_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would close the connection for it, and each invocation that is under way over it."""
    connection = bench.store._jetstream.connection
    kept = a_record("kept")
    await bench.store.keep(kept)
    monkeypatch.setattr(connection, "_max_payload", 100)
    with pytest.raises(InvocationRefused):
        await bench.store.keep(a_record("hog"))
    assert not await bench.store.meter(kept, an_event(kept), is_bill=False)
    assert [bench.store.is_paused(tenant) for tenant in ("hog", "kept", "quiet")] == [
        True,
        True,
        False,
    ]
    assert (await bench.count_records(), await bench.read_events()) == (1, [])


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


async def test_a_bucket_that_takes_records_again_is_not_held_against_later_ones(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    await until(lambda: _has_come_and_gone(bench), what="the record, which was under way, goes")


def test_the_event_of_an_unfinished_attempt_is_the_same_whichever_instance_makes_it() -> None:
    record = a_record(model="small", input_tokens=7, price="echo/small#2")
    event = make_unfinished_event(record)
    assert event == make_unfinished_event(record)
    assert (event.timestamp, event.latency_ms, event.is_estimated) == (
        record.deadline_ms,
        30_000,
        True,
    )
    assert (event.model, event.input_tokens, event.price, event.cost) == (
        "small",
        7,
        "echo/small#2",
        0.005,
    )


def _refuse(err_code: int) -> Callable[[Sequence[Effect], PublishCallback], None]:
    def publish(_: Sequence[Effect], callback: PublishCallback) -> None:
        callback(NotPublished("", err_code, "as told"))

    return publish


async def _cancel_claim(bench: Bench, record: InvocationRecord) -> None:
    """The claim is stored, and its publish ack does not come before its caller is cancelled."""
    is_stored, write = asyncio.Event(), bench.claims._claims._write

    async def store_and_wait(key: str, value: bytes, headers: dict[str, str], last: int) -> int:
        await write(key, value, headers, last)
        is_stored.set()
        return await asyncio.get_running_loop().create_future()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.claims._claims, "_write", store_and_wait)
        claiming = asyncio.create_task(bench.claims.claim(record.assignment_id or "", record.key))
        await is_stored.wait()
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming


async def _is_away(*_: object, **__: object) -> int:
    raise BrokerUnavailable("away")


async def _read_nothing(*_: object) -> None:
    """It is away."""


async def _hold_nothing(*_: object) -> bool:
    return True


async def _is_empty(bench: Bench) -> bool:
    return await bench.count_records() == 0


async def _has_come_and_gone(bench: Bench) -> bool:
    """Whether a record was stored, and is there no more: before it is stored the bucket is empty,
    too.
    """
    state = (await bench.nc.jsm().stream_info(f"KV_{bench.bucket}")).state
    return (state.last_seq, state.messages) == (1, 0)
