"""`router usage adjust`, `router budget adjust`: what was booked wrongly is corrected by an event
of its own, once, with an audit event.
"""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from router.budgets.model.reservation import RESERVATION_HEADER
from router.contracts.usage import (
    ADJUSTED_SUBJECT,
    USAGE_SUBJECT,
    UsageEvent,
    assignment_identity,
    identity,
    usage_bytes,
)
from router.core.clock import now_ms
from router.core.crashpoints import KILLED_EXIT_CODE
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from tests.support.cli import COMMAND, CommandResult, call_command_async, clean_environment
from tests.support.made_anew import create_stream
from tests.support.stories import a_topology
from tests.support.usage import a_usage_event

STREAM = "ROUTER_USAGE"
REASON = ("--reason", "ticket 81")
ADJUST_BILL = ("usage", "adjust", "--tenant", "acme", "--assignment", "a-1")
TAKE_OFF = ("--amount", "-0.25", *REASON)
RESERVATION = "life 20000001 chat day#3 day/policy=chat#1"


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    async with a_topology(nats_url) as jetstream:
        yield jetstream


async def meter(
    jetstream: JetStream, *, reservation: str | None = None, **fields: Any
) -> UsageEvent:
    """One usage event of acme as the router stores it."""
    known = {"cost": 0.3, "timestamp": now_ms() - 60_000, "request_id": "r-1"}
    event = a_usage_event(**{**known, **fields})
    headers = {"Nats-Msg-Id": identity(event)} | (
        {RESERVATION_HEADER: reservation} if reservation is not None else {}
    )
    await jetstream.publish(USAGE_SUBJECT, usage_bytes(event), headers)
    return event


async def adjust(
    nats_url: str, *words: str, what: str = "usage", environ: Mapping[str, str] | None = None
) -> CommandResult:
    return await call_command_async(
        what, "adjust", *words, "--json", "--nats-url", nats_url, environ=environ
    )


async def adjust_bill(nats_url: str, *words: str) -> CommandResult:
    return await adjust(nats_url, "--tenant", "acme", *words)


async def read_adjustments(jetstream: JetStream) -> list[tuple[dict[str, Any], dict[str, str]]]:
    async with open_reader(jetstream, STREAM, subject=ADJUSTED_SUBJECT) as reader:
        return [(orjson.loads(one.data), one.headers) for one in await reader.read(100)]


async def list_audit(nats_url: str) -> list[dict[str, Any]]:
    return (await call_command_async("audit", "--json", "--nats-url", nats_url)).lines


async def test_the_bill_of_an_assignment_is_corrected_by_an_event_of_its_own(
    nats_url: str, jetstream: JetStream
) -> None:
    billed = await meter(
        jetstream,
        assignment_id="a-1",
        event_id=assignment_identity("acme", "a-1"),
        trace_id="t-1",
        reservation=RESERVATION,
    )
    await meter(
        jetstream,
        assignment_id="a-2",
        event_id=assignment_identity("acme", "a-2"),
        request_id="r-2",
    )
    ended = await adjust_bill(nats_url, "--assignment", "a-1", *TAKE_OFF, "--currency", "USD")
    assert ended.status == 0, ended.err
    told = ended.json
    assert (told["booked"], told["billed_before"], told["billed_after"], told["currency"]) == (
        True,
        "0.3",
        "0.05",
        "USD",
    )
    ((event, headers),) = await read_adjustments(jetstream)
    assert event == {
        **{
            "version": "1",
            "tenant_id": "acme",
            "provider_id": "openai",
            "event_type": "usage.adjustment",
            "latency_ms": 0,
            "cost": -0.25,
        },
        **{
            "status": "success",
            "timestamp": billed.timestamp,
            "trace_id": "t-1",
            "assignment_id": "a-1",
            "request_id": "r-1",
        },
        **{
            "event_id": told["event_id"],
            "adjustment": "bill",
            "adjusts": identity(billed),
            "reason": "ticket 81",
        },
    }
    assert (headers["Nats-Msg-Id"], headers[RESERVATION_HEADER]) == (
        told["event_id"],
        "life 0 chat",
    )
    (audited,) = await list_audit(nats_url)
    assert (audited["command"], audited["target"], audited["tenant_id"]) == (
        "usage adjust",
        "acme assignment a-1",
        "acme",
    )
    assert (audited["before"], audited["note"]) == ({"billed": "0.3"}, "ticket 81")
    assert audited["after"] == {
        "event_id": told["event_id"],
        "id": told["id"],
        "amount": "-0.25",
        "adjusts": identity(billed),
    }


async def test_a_rehearsal_books_nothing_and_says_on_which_bill_and_in_which_budgets_it_would_be(
    nats_url: str, jetstream: JetStream
) -> None:
    for scope in (
        (),
        ("--policy", "chat"),
        ("--policy", "other"),
        ("--provider", "openai"),
        ("--provider", "other"),
    ):
        put = await call_command_async(
            "budget",
            "put",
            "acme",
            "--amount",
            "9",
            "--window",
            "day",
            *scope,
            "--nats-url",
            nats_url,
        )
        assert put.status == 0, put.err
    billed = await meter(jetstream, assignment_id="a-1", reservation=RESERVATION)
    told = (await adjust_bill(nats_url, "--assignment", "a-1", *TAKE_OFF, "--dry-run")).json
    assert (told["booked"], told["dry_run"], told["amount"]) == (False, True, "-0.25")
    assert told["budgets"] == ["day", "day/policy=chat", "day/provider=openai"]
    assert told["day"] == f"{datetime.fromtimestamp(billed.timestamp / 1000, UTC):%Y-%m-%d}"
    assert await read_adjustments(jetstream) == []
    assert [one["command"] for one in await list_audit(nats_url)] == ["budget put"] * 5
    table = await call_command_async(
        *(
            "usage",
            "adjust",
            "--tenant",
            "acme",
            "--assignment",
            "a-1",
            *TAKE_OFF,
            "--dry-run",
            "--nats-url",
            nats_url,
        )
    )
    assert "-0.25 USD would be booked" in table.out
    assert "billed 0.3 before, 0.05 then" in table.out


async def test_the_same_command_again_books_once_and_another_under_its_id_is_refused(
    nats_url: str, jetstream: JetStream
) -> None:
    await meter(jetstream, assignment_id="a-1")
    once = ("--assignment", "a-1", *TAKE_OFF, "--id", "ticket-81")
    assert (await adjust_bill(nats_url, *once)).json["booked"]
    again = (await adjust_bill(nats_url, *once)).json
    assert (again["booked"], "stands_since" in again) == (False, True)
    assert (await adjust_bill(nats_url, *once, "--dry-run")).json["stands_since"] == again[
        "stands_since"
    ]
    other = await adjust_bill(
        nats_url, "--assignment", "a-1", "--amount", "-0.05", *REASON, "--id", "ticket-81"
    )
    assert (other.status, "--id was used for another adjustment: cost was -0.25" in other.err) == (
        1,
        True,
    ), other.err
    assert len(await read_adjustments(jetstream)) == 1
    assert [one["command"] for one in await list_audit(nats_url)] == ["usage adjust"]
    assert (
        await adjust(
            nats_url, "--tenant", "beta", "--assignment", "a-1", *TAKE_OFF, "--id", "ticket-81"
        )
    ).status == 1


async def die_when_it_is_stored(*words: str) -> "subprocess.CompletedProcess[bytes]":
    """The command as a process that kills itself there."""
    environ = clean_environment({"CRASHPOINT": "adjustment_stored", "PYTHONPATH": os.getcwd()})
    return await asyncio.to_thread(
        subprocess.run, [*COMMAND, *words], env=environ, capture_output=True, timeout=120
    )


async def test_a_command_that_is_killed_before_its_audit_event_books_once_and_is_audited_when_it_runs_again(
    nats_url: str, jetstream: JetStream
) -> None:
    await meter(jetstream, assignment_id="a-1")
    words = (*ADJUST_BILL, *TAKE_OFF, "--id", "ticket-81", "--nats-url", nats_url)
    killed = await die_when_it_is_stored(*words)
    assert killed.returncode == KILLED_EXIT_CODE, killed.stderr
    assert await list_audit(nats_url) == []
    for _ in range(2):
        assert (await call_command_async(*words)).status == 0
    assert len(await read_adjustments(jetstream)) == 1
    assert [one["command"] for one in await list_audit(nats_url)] == ["usage adjust"]


async def test_a_killed_command_has_said_the_id_that_it_chose(
    nats_url: str, jetstream: JetStream
) -> None:
    await meter(jetstream, assignment_id="a-1")
    words = (*ADJUST_BILL, *TAKE_OFF, "--nats-url", nats_url, "--json")
    killed = await die_when_it_is_stored(*words)
    (said,) = re.findall(rb"--id ([0-9a-f]{16})", killed.stderr)
    again = (await call_command_async(*words, "--id", said.decode())).json
    assert (again["booked"], again["id"]) == (False, said.decode())
    assert len(await read_adjustments(jetstream)) == 1


async def test_an_adjustment_stands_also_when_the_duplicate_window_is_over(
    nats_url: str, jetstream: JetStream
) -> None:
    await meter(jetstream, assignment_id="a-1")
    once = ("--assignment", "a-1", *TAKE_OFF, "--id", "ticket-81")
    assert (await adjust_bill(nats_url, *once)).status == 0
    ((event, headers),) = await read_adjustments(jetstream)
    info = await jetstream.stream(STREAM)
    assert info is not None
    await jetstream.ask(f"STREAM.DELETE.{STREAM}")  # with the server's memory of its ids
    await create_stream(jetstream, STREAM, info["config"])
    await meter(jetstream, assignment_id="a-1")
    unnamed = {name: value for name, value in headers.items() if name != "Nats-Msg-Id"}
    await jetstream.publish(ADJUSTED_SUBJECT, orjson.dumps(event), unnamed)
    assert not (await adjust_bill(nats_url, *once)).json["booked"]
    assert len(await read_adjustments(jetstream)) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--assignment", "nowhere"), "has no usage event of assignment nowhere"),
        (("--request", "twice"), "has 2 usage events: name one with --event"),
        (("--request", "marked"), "is on no bill: its events are marked"),
        (("--assignment", "small"), "more than was billed: 0.1 stands there"),
        (("--period", "2999-01", "--provider", "openai"), "has not begun"),
        (("--period", "2001-01", "--provider", "openai"), "is older than 76 days"),
    ],
)
async def test_what_cannot_be_corrected_is_refused_with_words(
    nats_url: str, jetstream: JetStream, words: tuple[str, ...], says: str
) -> None:
    await meter(jetstream, request_id="twice", event_id=f"usage:{1:032x}")
    await meter(jetstream, request_id="twice", event_id=f"usage:{2:032x}")
    await meter(jetstream, request_id="marked", is_correlated=False)
    await meter(jetstream, request_id="r-small", assignment_id="small", cost=0.1)
    ended = await adjust_bill(nats_url, *words, *TAKE_OFF)
    assert (ended.status, says in ended.err) == (1, True), ended.err
    assert await read_adjustments(jetstream) == []
    assert await list_audit(nats_url) == []


async def test_one_event_of_several_is_named_and_a_bill_is_not_adjusted_below_zero_by_two_steps(
    nats_url: str, jetstream: JetStream
) -> None:
    await meter(jetstream, request_id="twice", event_id=f"usage:{1:032x}")
    await meter(jetstream, request_id="twice", event_id=f"usage:{2:032x}")
    one = ("--event", f"usage:{2:032x}", *TAKE_OFF)
    told = (await adjust_bill(nats_url, *one)).json
    assert (told["adjusts"], told["billed_after"]) == (f"usage:{2:032x}", "0.05")
    again = await adjust_bill(nats_url, *one)
    assert (again.status, "more than was billed: 0.05 stands there" in again.err) == (1, True), (
        again.err
    )
    assert (await adjust(nats_url, "--tenant", "beta", *one)).status == 1


async def test_an_event_with_a_derived_identity_is_found_by_it(
    nats_url: str, jetstream: JetStream
) -> None:
    billed = await meter(jetstream)
    assert (await adjust_bill(nats_url, "--event", identity(billed), *TAKE_OFF)).json[
        "billed_before"
    ] == "0.3"


async def test_a_period_is_corrected_on_the_bill_of_its_last_moment(
    nats_url: str, jetstream: JetStream
) -> None:
    today = datetime.now(UTC)
    before = datetime.fromtimestamp(
        today.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp() - 1, UTC
    )
    words = ("--provider", "openai", "--policy", "chat", "--amount", "-12.500000001", *REASON)
    assert (
        await adjust_bill(nats_url, "--period", f"{before:%Y-%m}", *words, "--id", "credit")
    ).json["day"] == f"{before:%Y-%m-%d}"
    assert (await adjust_bill(nats_url, "--period", f"{before:%Y-%m-%d}", *words)).json[
        "day"
    ] == f"{before:%Y-%m-%d}"
    assert (await adjust_bill(nats_url, "--period", f"{today:%Y-%m}", *words)).status == 0
    (month, headers), (day, _), (now, _) = await read_adjustments(jetstream)
    assert month["timestamp"] == day["timestamp"] == int(before.timestamp()) * 1000 + 999
    assert abs(now["timestamp"] - now_ms()) < 60_000
    assert (month["cost"], "assignment_id" in month, headers[RESERVATION_HEADER]) == (
        -12.500000001,
        False,
        "- 0 chat",
    )
    other = await adjust_bill(nats_url, "--period", f"{today:%Y-%m}", *words, "--id", "credit")
    assert (other.status, "another adjustment: timestamp was" in other.err) == (1, True), other.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--assignment", "a", "--amount", "0", *REASON), "not 0"),
        (("--assignment", "a", "--amount", "1e3", *REASON), "--amount"),
        (("--assignment", "a", "--amount", "nan", *REASON), "--amount"),
        (("--assignment", "a", "--amount", "1.0000000001", *REASON), "nine decimal places"),
        (("--assignment", "a", "--amount", "123456789.123456789", *REASON), "15 in all"),
        (("--assignment", "a", "--amount", "2000000000", *REASON), "results.max_cost"),
        (("--assignment", "a", "--amount", "1", "--reason", " "), "--reason"),
        (("--assignment", "a", "--amount", "1", "--reason", "x" * 513), "--reason"),
        (("--assignment", "a", "--amount", "1", *REASON, "--currency", "EUR"), "costs are in USD"),
        (("--assignment", "a", "--amount", "1", *REASON, "--id", "a b"), "--id"),
        (("--assignment", "a b", "--amount", "1", *REASON), "--assignment"),
        (("--event", "usage:1", "--amount", "1", *REASON), "--event"),
        (("--amount", "1", *REASON), "--period"),
        (("--assignment", "a", "--request", "r", "--amount", "1", *REASON), "one of"),
        (("--assignment", "a", "--provider", "x", "--amount", "1", *REASON), "are for --period"),
        (("--period", "2026-11", "--amount", "1", *REASON), "takes --provider"),
        (("--period", "2026-13", "--provider", "x", "--amount", "1", *REASON), "--period"),
        (("--period", "yesterday", "--provider", "x", "--amount", "1", *REASON), "2026-11-27"),
    ],
)
async def test_wrong_use_is_told_before_anything_is_asked(
    words: tuple[str, ...], says: str
) -> None:
    ended = await adjust_bill("nats://127.0.0.1:1", *words)
    assert (ended.status, says in " ".join(ended.err.replace("│", " ").split())) == (2, True), (
        ended.err
    )


async def test_a_budget_alone_is_corrected_and_one_that_there_is_not_is_refused(
    nats_url: str, jetstream: JetStream
) -> None:
    for scope in ((), ("--provider", "openai")):
        await call_command_async(
            "budget",
            "put",
            "acme",
            "--amount",
            "9",
            "--window",
            "day",
            *scope,
            "--nats-url",
            nats_url,
        )
    told = (
        await adjust(
            nats_url, "acme", "day", "--amount", "-1000", *REASON, "--id", "82", what="budget"
        )
    ).json
    assert (told["booked"], told["budgets"], "day" in told) == (True, ["day"], False)
    assert not (
        await adjust(
            nats_url, "acme", "day", "--amount", "-1000", *REASON, "--id", "82", what="budget"
        )
    ).json["booked"]
    ((event, headers),) = await read_adjustments(jetstream)
    assert (event["adjustment"], event["budget"], event["provider_id"], event["cost"]) == (
        "budget",
        "day",
        "*",
        -1000.0,
    )
    assert RESERVATION_HEADER not in headers
    assert [(one["command"], one["target"]) for one in await list_audit(nats_url)][2:] == [
        ("budget adjust", "acme day")
    ]
    missing = await adjust(nats_url, "acme", "month", "--amount", "1", *REASON, what="budget")
    assert (missing.status, "month" in missing.err) == (1, True), missing.err
