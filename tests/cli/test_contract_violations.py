"""`router contract violations`, `violation` and `message`, over events that routers stored."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig

from router.operate.violations.events import (
    ALL_VIOLATIONS,
    ViolationEvent,
    violation_bytes,
    violation_subject,
)
from tests.support.cli import CommandResult, call_command_async


def an_event(tenant: str | None = "acme", rule: str = "malformed", **fields: Any) -> ViolationEvent:
    known = {
        "subscription": "decide",
        "subject": "s.decide",
        "header": "trace_id",
        "expected": "an id",
        "router_node_id": "n",
    }
    return ViolationEvent(**{**known, "tenant_id": tenant, "rule": rule, "timestamp": 1, **fields})


@pytest.fixture
async def stream(nc: Client) -> AsyncIterator[str]:
    """Events of two tenants, and bytes that are no event."""
    js, name = nc.jetstream(), "ROUTER_VIOLATIONS"
    await js.add_stream(
        StreamConfig(name=name, subjects=[ALL_VIOLATIONS], storage=StorageType.MEMORY)
    )
    events = [
        *(an_event(message_id=f"m-{number}") for number in range(3)),
        an_event(count=40, messages=39, message_id="m-43"),
        an_event(
            "beta",
            "empty",
            stream="S",
            sequence=1,
            trace_id="t-1",
            inbox_prefix="_INBOX_gateway.one",
        ),
        an_event(None, subject="s.results", several_tenants=True, count=2, messages=2),
    ]
    for event in events:
        await js.publish(violation_subject(event.subscription), violation_bytes(event))
    await js.publish(violation_subject("decide"), b"nonsense")
    yield name
    await js.delete_stream(name)


async def call(nats_url: str, *arguments: str) -> CommandResult:
    return await call_command_async("contract", *arguments, "--nats-url", nats_url)


async def test_they_are_added_up_the_worst_first_with_an_example(
    nats_url: str, stream: str
) -> None:
    ended = await call(nats_url, "violations", "--json")
    lines = ended.lines
    assert [
        (line["tenant"], line["rule"], line["count"], line["messages"], line["example"])
        for line in lines
    ] == [
        ("acme", "trace_id.malformed", 43, 42, 4),
        ("(several)", "trace_id.malformed", 2, 2, 6),
        ("beta", "trace_id.empty", 1, 1, 5),
    ]
    assert lines[0]["message_id"] == "m-43"
    assert lines[0]["first_seen"] <= lines[0]["last_seen"]
    table = (await call(nats_url, "violations", "--by", "tenant")).out
    assert all(name in table for name in ("tenant", "violations", "last seen", "acme", "43"))


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        (("--tenant", "beta"), [1]),
        (("--subject", "s.*", "--rule", "malformed"), [43, 2]),
        (("--rule", "trace_id.empty"), [1]),
        (("--by", "subject"), [44, 2]),
        (("--since", "2100-01-01T00:00:00Z"), []),
    ],
)
async def test_they_are_selected_and_grouped(
    nats_url: str, stream: str, options: tuple[str, ...], counts: list[int]
) -> None:
    ended = await call(nats_url, "violations", *options, "--json")
    assert (ended.status, [line["count"] for line in ended.lines]) == (0, counts)


async def test_a_server_without_the_stream_is_not_one_without_violations(nats_url: str) -> None:
    ended = await call(nats_url, "violations")
    assert (ended.status, ended.out) == (1, "")
    assert "there is no stream ROUTER_VIOLATIONS here" in ended.err


async def test_of_many_lines_the_worst_are_shown_and_the_others_counted(
    nats_url: str, stream: str
) -> None:
    """A stream may hold a hundred thousand tenants."""
    ended = await call(nats_url, "violations", "--top", "1", "--json")
    assert [line["tenant"] for line in ended.lines] == ["acme"]
    assert "2 more lines with 3 violations; --top 3 shows all" in ended.err
    assert (await call(nats_url, "violations")).err == ""


async def test_without_any_it_says_so(nats_url: str, stream: str, nc: Client) -> None:
    await nc.jetstream().purge_stream(stream)
    assert (await call(nats_url, "violations")).out == "no violations since 1h\n"
    assert (await call(nats_url, "violations", "--by", "colour")).status == 2


async def test_one_is_shown_with_the_commands_that_lead_on(nats_url: str, stream: str) -> None:
    found = (await call(nats_url, "violation", "5", "--json")).json
    assert (found["tenant_id"], found["inbox_prefix"], found["expected"]) == (
        "beta",
        "_INBOX_gateway.one",
        "an id",
    )
    assert (found["explain"], found["message"]) == (
        "router explain trace_id.empty",
        "router contract message S 1",
    )
    assert "_INBOX_gateway.one" in (await call(nats_url, "violation", "5")).out
    assert "message" not in (await call(nats_url, "violation", "1", "--json")).json
    assert (await call(nats_url, "violation", "99")).status == 1


async def test_a_message_is_shown_without_the_values_of_masked_names(
    nc: Client, nats_url: str, prefix: str
) -> None:
    js, name = nc.jetstream(), f"{prefix.upper()}_S"
    await js.add_stream(StreamConfig(name=name, subjects=[f"{prefix}.s"]))
    secret = {
        "message": {"payload": {"email": "hunter2@example.org", "n": 2**64}},
        "password": "hunter2",
    }
    await js.publish(
        f"{prefix}.s",
        json.dumps(secret).encode(),
        headers={"api_key": "hunter2", "trace_id": "a b"},
    )
    await js.publish(f"{prefix}.s", b"\x0a hunter2")
    for number in ("1", "2"):
        for form in ((), ("--json",)):
            ended = await call(nats_url, "message", name, number, *form)
            assert (ended.status, "hunter2" in ended.out, str(2**64) in ended.out) == (
                0,
                False,
                number == "1",
            )
    shown = (await call(nats_url, "message", name, "1", "--json")).json
    assert (shown["headers"], shown["payload"]["message"]) == (
        {"api_key": "***", "trace_id": "a b"},
        {"payload": {"email": "***", "n": 2**64}},
    )
    assert (await call(nats_url, "message", name, "3")).status == 1
