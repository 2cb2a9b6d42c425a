"""Who broke the header contract: counted once for each stored message, on several routers, and told
in a stream.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from router.operate.violations import events as violation_events
from router.operate.violations import violations
from tests.support.router_streams import AlertRecorder, a_result, headers_of, read_stream
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    Inboxes,
    Json,
    a_request,
    is_settled,
    make_topology,
    read_metric,
    wrap_decide_handler,
)
from tests.support.waiting import until

# messages that break the contract; five of them are lost among the others without a name
ACME, BETA = 40, 5
METRIC = "router_nats_contract_violations_total"


def _fails_first(make: Handler) -> Handler:
    """Every attempt but the last one fails: whatever counts attempts counts too much."""

    def handle(message: Message) -> Outcome:
        outcome = make(message)
        if message.attempts < 3:
            raise RuntimeError("not yet")
        return outcome  # type: ignore[return-value]

    return handle


class Routers(AsyncExitStack):
    """Routers of one fleet, and what those counted that were stopped."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self.running: list[Running] = []
        self._counted_before: Counter[str] = Counter()

    async def start(self, count: int) -> None:
        self.running += [
            await self.enter_async_context(a_router(self._settings)) for _ in range(count)
        ]

    async def restart_first(self) -> None:
        self._counted_before = await self.count(self.running[:1])
        await self.running.pop(0).stop()
        await self.start(1)

    async def count(self, running: Sequence[Running] | None = None) -> Counter[str]:
        """By tenant, over all routers; with those that were stopped unless some are named."""
        counts = Counter(self._counted_before) if running is None else Counter[str]()
        for router in self.running if running is None else running:
            for tenant in ("acme", "beta"):
                counts[tenant] += int(await read_metric(router.ready.http, METRIC, tenant=tenant))
        return counts


@pytest.fixture
async def routers(nats_url: str, prefix: str) -> AsyncIterator[Routers]:
    settings = settings_for(
        nats_url,
        prefix,
        metrics__tenant_label_allowlist="acme,beta",
        acks__enabled=True,
        decide__backoff_ms="10,20,30",
        contract__events_per_minute=8,
        topology="create",
    )
    async with Routers(settings) as routers:
        yield routers


async def read_events(nc: Client, settings: Settings) -> list[Json]:
    return [
        json.loads(data) for _, data, _ in await read_stream(nc, settings.streams.violations.name)
    ]


async def test_two_tenants_on_three_routers_with_retries_and_a_restart_between(
    monkeypatch: pytest.MonkeyPatch, nc: Client, routers: Routers, prefix: str
) -> None:
    """Counters and events are exactly the stored messages, and the events name the tenant that the
    alert is about.
    """
    wrap_decide_handler(monkeypatch, _fails_first)
    settings, inboxes = routers._settings, await Inboxes.under(nc, prefix)
    alarms = await AlertRecorder.heard_on(nc)
    await routers.start(3)
    for wave in range(2):
        for number in range(wave, ACME, 2):
            headers = headers_of(number, trace_id="two words")
            await nc.publish(
                settings.decide.subject,
                a_request(number),
                reply=inboxes.of(number),
                headers=headers,
            )
        for number in range(wave, BETA, 2):
            name = f"b{number}"
            headers = {"Nats-Msg-Id": f"m-{name}", "tenant_id": "beta", "traceparent": "none"}
            body = a_request(name, message={"message_type": "chat", "payload": 1})
            await nc.publish(settings.decide.subject, body, reply=inboxes.of(name), headers=headers)
        wanted = (
            len(range(0, ACME, 2)) * (wave + 1)
            + len(range(0, BETA, 2))
            + wave * len(range(1, BETA, 2))
        )
        await until(lambda wanted=wanted: len(inboxes) >= wanted, within_s=30, what="all answers")
        await until(lambda: is_settled(nc, settings))
        if not wave:
            await routers.restart_first()
    assert await routers.count() == {"acme": ACME, "beta": BETA}
    await until(
        lambda: "contract_violations:" + settings.decide.subject in alarms.causes("warning")
    )
    for running in routers.running:
        await running.stop()
    events = await read_events(nc, settings)
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        counts[event["tenant_id"], event["header"], event["rule"]] += event["count"]
    assert counts == {
        ("acme", "trace_id", "malformed"): ACME,
        ("beta", "traceparent", "not_w3c"): BETA,
    }
    assert len(events) < ACME + BETA  # most of acme's were left out, and counted
    prefixes = {event.get("inbox_prefix") for event in events}
    # None: of a message that came again to a router that never heard who asked
    assert prefixes - {None} == {"_INBOX"}


@pytest.mark.parametrize("count", [1, 3])
async def test_what_the_listeners_refuse_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, nc: Client, routers: Routers, prefix: str, count: int
) -> None:
    """No stream has it, and every listener hears it."""
    # one that stands still hears the others before it counts
    monkeypatch.setattr(violations, "SETTLE_S", 6.0)
    settings, inboxes = routers._settings, await Inboxes.under(nc, prefix)
    await routers.start(count)
    for number in range(6):
        headers = (
            {"Nats-Msg-Id": f"m-{number}", "Nats-TTL": "1s"}
            if number % 2
            else {"X": "x" * 66_000, "tenant_id": "beta"}
        )
        await nc.publish(
            settings.decide.subject, a_request(number), reply=inboxes.of(number), headers=headers
        )
    await until(lambda: len(inboxes.subjects) == 6, what="an answer to each")

    async def all_are_stored() -> bool:
        return len(await read_events(nc, settings)) >= 6

    await until(all_are_stored, what="an event of each")
    events = await read_events(nc, settings)
    found = Counter((event["header"], event["rule"], event.get("tenant_id")) for event in events)
    assert found == {("Nats-TTL", "forbidden", "acme"): 3, ("headers", "too_large", "beta"): 3}
    assert [event.get("sequence") for event in events] == 6 * [None]
    assert await routers.count() == {"acme": 3, "beta": 3}


async def test_results_and_acks_name_their_tenant(nc: Client, routers: Routers) -> None:
    settings = routers._settings
    await routers.start(1)
    for number, (subject, status) in enumerate(
        ((settings.results.subject, "success"), (settings.acks.subject, "accepted"))
    ):
        body = a_result(number, tenant_id="beta", status=status)
        await nc.jetstream().publish(
            subject, body, headers=headers_of(number, tenant_id="beta", cp_phase="cp9")
        )
        await nc.jetstream().publish(
            subject,
            b'{"tenant_id": "acme"}',
            headers={"trace_id": "t", "Nats-Msg-Id": f"x-{number}", "cp_phase": ""},
        )

    async def all_are_stored() -> bool:
        return len(await read_events(nc, settings)) >= 4

    await until(all_are_stored, what="an event of each")
    found = Counter(
        (event["subscription"], event["tenant_id"]) for event in await read_events(nc, settings)
    )
    assert found == Counter(
        (name, tenant) for name in ("results", "acks") for tenant in ("acme", "beta")
    )


async def test_while_the_events_cannot_be_stored_requests_are_answered_and_the_events_come_later(
    monkeypatch: pytest.MonkeyPatch, nc: Client, routers: Routers, prefix: str
) -> None:
    """Also those above what the queue takes: they are added up."""
    monkeypatch.setattr(violation_events, "MAX_QUEUED", 3)
    monkeypatch.setattr(violation_events, "RETRY_S", 0.05)
    monkeypatch.setattr(violation_events, "END_S", 30.0)
    settings, inboxes = routers._settings, await Inboxes.under(nc, prefix)
    await routers.start(1)
    await nc.jsm().delete_stream(settings.streams.violations.name)
    for number in range(6):
        await nc.publish(
            settings.decide.subject,
            a_request(number),
            reply=inboxes.of(number),
            headers=headers_of(number, trace_id=""),
        )
    await until(lambda: len(inboxes.subjects) == 6, what="an answer to each")
    await until(lambda: is_settled(nc, settings))
    assert await routers.count() == {"acme": 6, "beta": 0}
    await make_topology(settings)
    await routers.running.pop().stop()
    assert sum(event["count"] for event in await read_events(nc, settings)) == 6
