"""Events of violations: so many a minute, with the number left out, in bounded memory, and never in
the way of a message.
"""

import asyncio
import json
from typing import Any

import pytest
from msgspec import Struct

from router.contracts.headers import MESSAGE_ID
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.operate.violations import events as violation_events
from router.operate.violations.events import MAX_QUEUED, MINUTE_S, ViolationEvents
from router.operate.violations.violations import MOST_SERIES, Violations
from router.operate.violations.windows import MAX_WINDOWS
from router.process.observability import Metrics
from tests.operate.test_violations import a_broken_contract
from tests.support.app import ManualClock
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _has_time_to_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(violation_events, "END_S", 60.0)


class Stored(Struct):
    subject: str
    event: dict[str, Any]
    headers: dict[str, str]


class FakeStream:
    """Stores what is published, once for each message id, as a stream does; `fails` are raised
    first.
    """

    def __init__(self, *fails: Exception) -> None:
        self.fails = list(fails)
        self.stored: list[Stored] = []

    async def publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        if self.fails:
            raise self.fails.pop(0)
        if headers[MESSAGE_ID] not in (one.headers[MESSAGE_ID] for one in self.stored):
            self.stored.append(Stored(subject, json.loads(data), headers))


async def store(events: ViolationEvents, stream: FakeStream | None = None) -> list[dict[str, Any]]:
    """What is in the stream when the process has ended."""
    stream = stream or FakeStream()
    running = asyncio.create_task(events.run(stream))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    return [one.event for one in stream.stored]


def the_events(per_minute: int = 3) -> ViolationEvents:
    return ViolationEvents(Metrics(), "node-1", per_minute, ManualClock())


async def test_an_event_says_who_broke_what_and_no_value() -> None:
    events, stream = the_events(), FakeStream()
    events.add(
        a_broken_contract(
            stream="S", sequence=7, stored_ns=5, trace_id="t-1", inbox_prefix="_INBOX_gateway.one"
        )
    )
    (event,) = await store(events, stream)
    assert event.pop("timestamp") > 1_700_000_000_000
    assert event == {
        **{
            "version": "1",
            "subscription": "decide",
            "subject": "work",
            "header": "trace_id",
            "rule": "empty",
            "expected": "not empty",
        },
        **{
            "tenant_id": "beta",
            "message_id": "m-1",
            "trace_id": "t-1",
            "stream": "S",
            "sequence": 7,
        },
        **{
            "inbox_prefix": "_INBOX_gateway.one",
            "router_node_id": "node-1",
            "count": 1,
            "messages": 1,
        },
    }
    assert stream.stored[0].subject == "beamline.router.v1.contract.violation.decide"
    assert stream.stored[0].headers["Nats-Msg-Id"] == "violation:S:7:5:trace_id:empty"


async def test_above_the_limit_of_a_minute_one_event_stands_for_the_rest() -> None:
    events = the_events(per_minute=3)
    for tenant in ("acme", "beta", "beta", "beta", "beta", "beta", "beta"):
        events.add(
            a_broken_contract(
                tenant_id=tenant, violations=(("trace_id", "empty"), ("cp_phase", "unknown"))
            )
        )
    found = [
        (event["tenant_id"], event["header"], event["count"], event["messages"])
        for event in await store(events)
    ]
    assert found.count(("beta", "trace_id", 1, 1)) == 3
    assert found.count(("beta", "cp_phase", 1, 0)) == 3
    assert ("beta", "trace_id", 3, 3) in found
    assert ("beta", "cp_phase", 3, 0) in found
    assert sum(messages for *_, messages in found) == 7


async def test_what_finds_the_queue_full_is_added_up_and_nothing_is_lost() -> None:
    metrics = Metrics()
    events = ViolationEvents(metrics, "node-1", MAX_QUEUED * 2, ManualClock())
    for number in range(MAX_QUEUED + 7):
        events.add(a_broken_contract(tenant_id=f"t{number // 100}"))
    found = await store(events)
    assert sum(event["count"] for event in found) == MAX_QUEUED + 7
    assert metrics.violation_events_lost.value == 0


async def test_many_tenants_whose_minute_ends_at_once_lose_nothing() -> None:
    """An event for the rest of each: more than the queue takes of single ones."""
    metrics = Metrics()
    events = ViolationEvents(metrics, "node-1", 1, ManualClock(), is_known=lambda _: True)
    for number in range(3 * MAX_WINDOWS):
        events.add(a_broken_contract(tenant_id=f"t{number % MAX_WINDOWS}"))
    found = await store(events)
    assert (sum(event["count"] for event in found), metrics.violation_events_lost.value) == (
        3 * MAX_WINDOWS,
        0,
    )


async def test_a_minute_does_not_end_while_the_broker_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(violation_events, "RETRY_S", 0.0)
    clock, stream = ManualClock(), FakeStream(*[BrokerUnavailable("no answer")] * 5)
    events = ViolationEvents(Metrics(), "node-1", 1, clock)
    for _ in range(9):
        events.add(a_broken_contract())
    clock.now += 3 * MINUTE_S
    running = asyncio.create_task(events.run(stream))  # type: ignore[arg-type]
    await until(lambda: not stream.fails)
    running.cancel()
    await asyncio.wait([running])
    assert [one.event["count"] for one in stream.stored] == [1, 8]


async def test_an_event_that_the_broker_refuses_is_lost_and_one_that_it_does_not_answer_is_stored_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(violation_events, "RETRY_S", 0.0)
    metrics, stream = (
        Metrics(),
        FakeStream(BrokerRefused(10077, "full"), BrokerUnavailable("no answer")),
    )
    events = ViolationEvents(metrics, "node-1", 10)
    for message_id in ("m-1", "m-2", "m-3"):
        events.add(a_broken_contract(message_id=message_id))
    running = asyncio.create_task(events.run(stream))  # type: ignore[arg-type]
    await until(lambda: len(stream.stored) == 2)
    running.cancel()
    assert {one.event["message_id"] for one in stream.stored} == {"m-2", "m-3"}
    assert metrics.violation_events_lost.value == 1


async def test_tenants_without_end_take_bounded_memory_and_no_series() -> None:
    counted = Metrics(["acme"])
    events = ViolationEvents(counted, "node-1", 2, ManualClock())
    violations = Violations(counted, events)
    for number in range(20_000):
        violations.note(a_broken_contract(tenant_id=f"tenant-{number}"))
    assert len(counted.violations) == len(counted.violating_messages) == 1
    assert len(events.windows) <= MAX_WINDOWS + 1
    assert len(violations._series) <= MOST_SERIES
    assert len(events._queue) <= MAX_QUEUED
