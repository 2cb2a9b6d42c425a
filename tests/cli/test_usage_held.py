"""`router usage held`: what workers told far above what was expected, listed, accepted, set; once,
however often it is said.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from router.budgets.model.held_cost import (
    BILL,
    MAX_HELD,
    OUTCOME,
    adjust_event,
    derive_held_identity,
    find_held_subject,
    make_adjustment_effect,
    make_held_notice,
    operator_identity,
    outcome_identity,
)
from router.contracts.usage import UsageEvent, assignment_identity, identity
from router.delivery.consume.stream_reader import open_reader
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.work.model import make_usage_effect
from tests.support.cli import CommandResult, call_command_async
from tests.support.stories import a_topology
from tests.support.usage import a_usage_event

RESERVATION = "life 20000000 chat month/policy=chat#3"


def an_event(number: int = 1, tenant: str = "acme", told: float = 1e9) -> UsageEvent:
    return a_usage_event(
        tenant_id=tenant,
        cost=2.0,
        timestamp=1_700_000_000_000,
        assignment_id=f"a-{number}",
        request_id=f"r-{number}",
        event_id=assignment_identity(tenant, f"a-{number}"),
        told_cost=told,
    )


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    """A router's topology, with two costs that are held."""
    async with a_topology(nats_url) as jetstream:
        async with open_publisher(jetstream) as publisher:
            for event in (an_event(), an_event(2, "beta.eu", 5.0)):
                await publisher.publish_and_wait([make_held_notice(event, RESERVATION)])
        yield jetstream


async def held(nats_url: str, *arguments: str) -> CommandResult:
    return await call_command_async("usage", "held", *arguments, "--nats-url", nats_url)


async def read_all(jetstream: JetStream, stream: str) -> list[dict[str, Any]]:
    async with open_reader(jetstream, stream) as reader:
        return [
            {**json.loads(one.data), "headers": one.headers}
            for one in (await reader.read(reader.total) if reader.total else [])
        ]


async def test_what_is_held_is_listed_with_what_is_booked_and_what_was_told(
    nats_url: str, jetstream: JetStream
) -> None:
    first, second = (await held(nats_url, "list", "--json")).lines
    assert (first["event_id"], first["cost"], first["told_cost"]) == (an_event().event_id, 2.0, 1e9)
    assert second["tenant_id"] == "beta.eu"
    assert [
        one["tenant_id"]
        for one in (await held(nats_url, "list", "--json", "--tenant", "beta.eu")).lines
    ] == ["beta.eu"]
    assert "no cost is held" in (await held(nats_url, "list", "--tenant", "gamma")).out
    assert find_held_subject("beta.eu") == "beamline.usage.v1.held.beta=2Eeu"


@pytest.mark.parametrize(
    ("options", "difference"),
    [((), 999_999_998.0), (("--amount", "0.25"), -1.75), (("--amount", "2"), 0.0)],
)
async def test_an_accepted_cost_is_an_adjustment_with_an_audit_event_and_is_held_no_more(
    nats_url: str, jetstream: JetStream, options: tuple[str, ...], difference: float
) -> None:
    event = an_event()
    told = await held(
        nats_url, "accept", event.event_id or "", *options, "--reason", "told in cents", "--json"
    )
    assert told.status == 0, told.err
    (adjustment,) = await read_all(jetstream, "ROUTER_USAGE")
    (audit,) = await read_all(jetstream, "ROUTER_AUDIT")
    assert (adjustment["cost"], adjustment["adjustment"], adjustment["adjusts"]) == (
        difference,
        "held",
        event.event_id,
    )
    assert (adjustment["event_id"], adjustment["reason"]) == (
        derive_held_identity(event.event_id or ""),
        "told in cents",
    )
    # for the budgets of the policy
    assert adjustment["headers"]["Router-Reservation"] == "life 0 chat"
    assert (audit["command"], audit["tenant_id"], audit["after"]["amount"]) == (
        "usage held accept",
        "acme",
        difference,
    )
    assert [one["tenant_id"] for one in (await held(nats_url, "list", "--json")).lines] == [
        "beta.eu"
    ]


async def test_a_dry_run_books_nothing(nats_url: str, jetstream: JetStream) -> None:
    told = await held(nats_url, "accept", an_event().event_id or "", "--amount", "3", "--dry-run")
    assert (told.status, "an adjustment of 1.0 USD: would be booked" in told.out) == (0, True)
    assert await read_all(jetstream, "ROUTER_USAGE") == []
    assert len((await held(nats_url, "list", "--json")).lines) == 2


@pytest.mark.parametrize("died", ["after the adjustment", "after the audit event"])
async def test_a_command_that_is_run_again_books_nothing_twice(
    nats_url: str, jetstream: JetStream, monkeypatch: pytest.MonkeyPatch, died: str
) -> None:
    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if died == "after the adjustment":
            patched.setattr("router.shell.session.CommandSession.record", die)
        else:
            patched.setattr("router.lake.commands.held.remove_held", die)
        assert (await held(nats_url, "accept", an_event().event_id or "")).status != 0
    again = await held(nats_url, "accept", an_event().event_id or "", "--amount", "7")
    assert (again.status, "it stands already" in again.out) == (0, True)
    (adjustment,) = await read_all(jetstream, "ROUTER_USAGE")
    assert adjustment["cost"] == 999_999_998.0
    assert [one["after"]["adjustment"] for one in await read_all(jetstream, "ROUTER_AUDIT")] == [
        adjustment["event_id"]
    ]
    # it is held no more
    decided = await held(nats_url, "accept", an_event().event_id or "", "--json")
    assert (decided.status, decided.json["is_new"], decided.json["amount"]) == (
        0,
        False,
        999_999_998.0,
    )


async def test_what_was_decided_stands_also_when_the_duplicate_window_is_over(
    nats_url: str, jetstream: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        raise KeyboardInterrupt

    info = await jetstream.stream("ROUTER_USAGE")
    assert info is not None
    await jetstream.ask(
        "STREAM.UPDATE.ROUTER_USAGE", {**info["config"], "duplicate_window": 100_000_000}
    )
    with monkeypatch.context() as patched:
        patched.setattr("router.lake.commands.held.remove_held", die)
        assert (await held(nats_url, "accept", an_event().event_id or "")).status != 0
    await asyncio.sleep(0.2)  # the server's own clock
    assert (
        "it stands already"
        in (await held(nats_url, "accept", an_event().event_id or "", "--dry-run")).out
    )
    again = (
        await held(nats_url, "accept", an_event().event_id or "", "--amount", "7", "--json")
    ).json
    assert (again["is_new"], again["amount"]) == (False, 999_999_998.0)
    assert len(await read_all(jetstream, "ROUTER_USAGE")) == 1
    assert {one["after"]["amount"] for one in await read_all(jetstream, "ROUTER_AUDIT")} == {
        999_999_998.0
    }


@pytest.mark.parametrize("amount", ["-1", "nan", "inf", "1e10", "0.0000000001", "much", "9" * 400])
async def test_an_amount_that_is_no_money_is_refused(
    nats_url: str, jetstream: JetStream, amount: str
) -> None:
    refused = await held(nats_url, "accept", an_event().event_id or "", "--amount", amount)
    assert refused.status == 2
    assert await read_all(jetstream, "ROUTER_USAGE") == []


async def store_held_correction(jetstream: JetStream, *, has_bill: bool = True) -> str:
    """A timeout was billed at 0.5; then a success was told at 1e9, and booked at its bound, 2.0:
    the id of the correction.
    """
    bill = replace(an_event(3), status="timeout", cost=0.5, told_cost=None)
    made = adjust_event(
        OUTCOME,
        bill,
        Decimal("1.5"),
        event_id=outcome_identity(identity(bill)),
        reason="timeout, then success",
    )
    correction = replace(made, told_cost=1e9 - 0.5)
    effects = [make_usage_effect(bill)] if has_bill else []
    async with open_publisher(jetstream) as publisher:
        await publisher.publish_and_wait(
            [*effects, make_adjustment_effect(correction), make_held_notice(correction)]
        )
    return identity(correction)


@pytest.mark.parametrize(
    ("amount", "difference"), [("-0.4", -1.9), ("-0.5", -2.0), ("0", -1.5), ("0.25", -1.25)]
)
async def test_a_correction_may_lower_its_bill(
    nats_url: str, jetstream: JetStream, amount: str, difference: float
) -> None:
    """The amount is the difference to the bill of 0.5: -0.4 makes it 0.1."""
    correction = await store_held_correction(jetstream)
    told = await held(nats_url, "accept", correction, "--amount", amount)
    assert told.status == 0, told.err
    bill, booked, adjustment = await read_all(jetstream, "ROUTER_USAGE")
    assert (adjustment["cost"], adjustment["adjusts"]) == (difference, bill["event_id"])
    assert bill["cost"] + booked["cost"] + adjustment["cost"] == pytest.approx(0.5 + float(amount))


@pytest.mark.parametrize("has_bill", [True, False])
async def test_a_correction_takes_no_more_off_than_was_billed(
    nats_url: str, jetstream: JetStream, has_bill: bool
) -> None:
    correction = await store_held_correction(jetstream, has_bill=has_bill)
    stored = len(await read_all(jetstream, "ROUTER_USAGE"))
    for options in ((), ("--dry-run",)):
        refused = await held(nats_url, "accept", correction, "--amount", "-0.500000001", *options)
        assert (refused.status, ("0.5" in refused.err, "no longer" in refused.err)) == (
            1,
            (has_bill, not has_bill),
        ), refused.err
    assert len(await read_all(jetstream, "ROUTER_USAGE")) == stored
    assert await read_all(jetstream, "ROUTER_AUDIT") == []


async def test_a_bill_that_was_adjusted_meanwhile_is_not_taken_below_0(
    nats_url: str, jetstream: JetStream
) -> None:
    """2.00 was booked, 1.95 was taken off by an operator; to set the held cost to 0.05 would take
    it off again.
    """
    bill = an_event()
    lowered = adjust_event(
        BILL, bill, Decimal("-1.95"), event_id=operator_identity(BILL, "acme", "c-1")
    )
    async with open_publisher(jetstream) as publisher:
        await publisher.publish_and_wait([make_usage_effect(bill), make_adjustment_effect(lowered)])
    refused = await held(nats_url, "accept", identity(bill), "--amount", "0.05")
    assert (refused.status, "at least 1.95" in refused.err) == (1, True), refused.err
    assert (await held(nats_url, "accept", identity(bill), "--amount", "1.95")).status == 0
    stored = await read_all(jetstream, "ROUTER_USAGE")
    assert sum(one["cost"] for one in stored) == pytest.approx(0.0)


async def test_an_event_that_is_not_held_is_told(nats_url: str, jetstream: JetStream) -> None:
    refused = await held(nats_url, "accept", "usage:" + "0" * 32)
    assert (refused.status, "no cost of usage:" in refused.err) == (1, True)


async def test_one_tenant_fills_its_own_place_alone(nats_url: str, jetstream: JetStream) -> None:
    async with open_publisher(jetstream) as publisher:
        await publisher.publish_and_wait(
            [make_held_notice(an_event(number)) for number in range(10, 12 + MAX_HELD)]
        )
    listed = (await held(nats_url, "list", "--json")).lines
    tenants = [one["tenant_id"] for one in listed]
    assert (tenants.count("acme"), tenants.count("beta.eu")) == (MAX_HELD, 1)
