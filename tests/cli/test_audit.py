"""Every write of an operator leaves an event that `router audit` shows; one that cannot be stored
is told, and the write stands.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from router.delivery.settings import NatsConfig
from router.delivery.wire.api import JetStream
from router.operate.audit.audit_event import (
    MAX_NOTE,
    MAX_VALUES_BYTES,
    AuditEvent,
    audit_bytes,
    read_audit_event,
)
from router.operate.audit.audit_log import describe_login
from tests.support.cli import CommandResult, call_command_async
from tests.support.console import console_settings, store_dead_letter
from tests.support.stories import a_topology

STREAM = "ROUTER_AUDIT"
POLICY = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    """A router's topology, but for the stream of audit events: the first write makes it."""
    async with a_topology(nats_url) as jetstream:
        await jetstream.ask(f"STREAM.DELETE.{STREAM}")
        yield jetstream


async def call(nats_url: str, *arguments: str, **more: Any) -> CommandResult:
    return await call_command_async(*arguments, "--nats-url", nats_url, **more)


async def list_events(nats_url: str, *options: str) -> list[dict[str, Any]]:
    ended = await call(nats_url, "audit", "--json", *options)
    assert ended.status == 0, ended.err
    return ended.lines


async def test_a_policy_s_writes_leave_who_what_before_and_after(
    nats_url: str, jetstream: JetStream, tmp_path: Path
) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    assert (await call(nats_url, "policy", "put", "acme", "default", str(file))).status == 0
    file.write_text(json.dumps({**POLICY, "providers": [{"name": "second", "weight": 1}]}))
    # not over an unseen version
    assert (await call(nats_url, "policy", "put", "acme", "default", str(file))).status == 1
    assert (
        await call(nats_url, "policy", "put", "acme", "default", str(file), "--replaces", "1")
    ).status == 0
    assert (await call(nats_url, "policy", "rollback", "acme", "default", "--to", "1")).status == 0
    assert (await call(nats_url, "policy", "delete", "acme", "default")).status == 0
    first, second, rolled, deleted = await list_events(nats_url)
    assert [one["command"] for one in (first, second, rolled, deleted)] == [
        *("policy put", "policy put", "policy rollback", "policy delete")
    ]
    assert {
        (one["target"], one["tenant_id"], one["via"], one["outcome"])
        for one in (first, second, rolled, deleted)
    } == {("acme/default", "acme", "cli", "done")}
    assert "before" not in first
    assert (first["after"]["version"], second["before"]["version"], second["after"]["version"]) == (
        1,
        1,
        2,
    )
    assert (
        first["after"]["hash"]
        == second["before"]["hash"]
        == rolled["after"]["hash"]
        != second["after"]["hash"]
    )
    assert "after" not in deleted
    assert "@" in first["by"]
    assert ":" in first["router_node_id"]
    # what a document says is in its bucket, not here
    assert "providers" not in json.dumps([first, second])


async def test_an_extension_that_says_the_same_leaves_no_second_event(
    nats_url: str, jetstream: JetStream
) -> None:
    register = ("extension", "register", "--id", "pii_guard", "--type", "validator")
    for command in (
        register,
        register,
        ("extension", "disable", "pii_guard"),
        ("extension", "remove", "pii_guard", "--yes"),
    ):
        assert (await call(nats_url, *command)).status == 0
    found = await list_events(nats_url, "--what", "extension")
    assert [(one["command"], one.get("after", {}).get("enabled")) for one in found] == [
        ("extension register", True),
        ("extension disable", False),
        ("extension remove", None),
    ]


async def test_budgets_and_canaries_leave_theirs(
    nats_url: str, jetstream: JetStream, tmp_path: Path
) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    for command in (
        ("budget", "put", "acme", "--amount", "10", "--window", "day"),
        ("budget", "put", "acme", "--amount", "12", "--window", "day"),
        ("budget", "delete", "acme", "day"),
        ("policy", "put", "acme", "default", str(file)),
        ("policy", "canary", "start", "acme", "default", str(file)),
        ("policy", "canary", "abort", "acme", "default"),
    ):
        assert (await call(nats_url, *command)).status == 0
    events = await list_events(nats_url, "--tenant", "acme")
    assert [
        (one["command"], one.get("before", {}).get("version"), one.get("after", {}).get("version"))
        for one in events
    ] == [
        ("budget put", None, 1),
        ("budget put", 1, 2),
        ("budget delete", 2, None),
        ("policy put", None, 1),
        ("policy canary start", 1, 2),
        ("policy canary abort", 2, 3),
    ]
    assert (events[1]["before"]["amount"], events[1]["after"]["amount"]) == ("10", "12")


async def test_prices_leave_theirs(nats_url: str, jetstream: JetStream, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    for output in ("10", "12", "12"):
        file.write_text(
            json.dumps(
                {"provider": "openai", "model": "gpt-4o", "output": output, "currency": "USD"}
            )
        )
        assert (await call(nats_url, "price", "put", str(file))).status == 0
    assert (await call(nats_url, "price", "delete", "openai", "gpt-4o")).status == 0
    events = await list_events(nats_url, "--what", "price")
    assert [
        (
            one["command"],
            one["target"],
            one.get("before", {}).get("version"),
            one.get("after", {}).get("version"),
        )
        for one in events
    ] == [
        ("price put", "openai/gpt-4o", None, 1),
        ("price put", "openai/gpt-4o", 1, 2),
        ("price delete", "openai/gpt-4o", 2, None),
    ]
    assert (events[1]["before"]["output"], events[1]["after"]["output"]) == ("10", "12")


async def test_a_long_write_leaves_an_event_before_it_and_one_when_it_ends(
    nats_url: str, jetstream: JetStream
) -> None:
    settings = console_settings(nats_url, decide__subject="beamline.router.v1.decide")
    for number in range(2):
        await store_dead_letter(jetstream, settings, b'{"secret of a payload":%d}' % number)
    assert (await call(nats_url, "dlq", "discard", "1", "--yes")).status == 0
    assert (await call(nats_url, "dlq", "replay", "--reason", "validation_failed")).status == 0
    found = await list_events(nats_url)
    assert [(one["command"], one["outcome"], one["target"]) for one in found] == [
        ("dlq discard", "begun", "ROUTER_DLQ 1"),
        ("dlq discard", "done", "ROUTER_DLQ 1"),
        ("dlq replay", "begun", "ROUTER_DLQ reason=validation_failed"),
        ("dlq replay", "done", "ROUTER_DLQ reason=validation_failed"),
    ]
    assert found[1]["after"] == {"discarded": 1}
    assert found[3]["after"] == {"sent": 1, "finished": 0, "kept": 0, "in_doubt": False}
    assert "payload" not in json.dumps(found)


async def test_topology_apply_leaves_what_it_made_and_nothing_when_all_was_there(
    nats_url: str, jetstream: JetStream
) -> None:
    assert (await call(nats_url, "topology", "apply", "--overcommit")).status == 0
    (event,) = await list_events(nats_url)
    assert (event["command"], event["after"]) == (
        "topology apply",
        {"changed": [f"stream {STREAM}"]},
    )
    assert (await call(nats_url, "topology", "apply", "--overcommit")).status == 0
    assert len(await list_events(nats_url)) == 1


async def test_events_are_selected_and_shown_to_people(
    nats_url: str, jetstream: JetStream, tmp_path: Path
) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(POLICY))
    for tenant in ("acme", "beta"):
        await call(nats_url, "policy", "put", tenant, "default", str(file))
    assert [one["target"] for one in await list_events(nats_url, "--tenant", "beta")] == [
        "beta/default"
    ]
    assert [one["target"] for one in await list_events(nats_url, "--what", "put acme")] == [
        "acme/default"
    ]
    assert await list_events(nats_url, "--who", "no-such-user") == []
    assert await list_events(nats_url, "--since", "2100-01-01T00:00:00Z") == []
    shown = await call(nats_url, "audit")
    assert all(word in shown.out for word in ("policy put", "beta/default", "version=1", "done"))


async def test_an_event_that_cannot_be_stored_is_told_and_the_write_stands(
    nats_url: str, nc: Client, jetstream: JetStream
) -> None:
    """The stream is there and takes nothing more: the write is done, and its exit status says that
    it is not written down.
    """
    config = StreamConfig(name=STREAM, subjects=["elsewhere"])
    await nc.jetstream().add_stream(config)
    ended = await call(
        nats_url, "extension", "register", "--id", "pii_guard", "--type", "validator"
    )
    assert (ended.status, "is registered" in ended.out) == (4, True)
    assert "its audit event could not be stored in ROUTER_AUDIT" in ended.err
    assert (await call(nats_url, "extension", "show", "pii_guard")).status == 0


async def test_a_server_without_the_stream_is_not_one_without_writes(
    nats_url: str, jetstream: JetStream
) -> None:
    ended = await call(nats_url, "audit")
    assert (ended.status, "there is no stream ROUTER_AUDIT here" in ended.err) == (1, True)


def test_texts_and_values_are_bounded_and_no_secret_is_kept() -> None:
    values = {"password": "s3cret", "many": list(range(10_000))}
    event = AuditEvent(
        id="1",
        timestamp=1,
        by="x" * 10_000,
        via="cli",
        router_node_id="n",
        command="c",
        target="\x1b[31m nats://me:s3cret@host",
        before={"token": "s3cret", "n": 1},
        after=values,
        note="n" * 10_000,
    )
    data = audit_bytes(event)
    assert len(data) < 2 * MAX_VALUES_BYTES + MAX_NOTE + 2_000
    assert b"s3cret" not in data
    assert b"\x1b" not in data
    found = read_audit_event(data)
    assert found.before == {"token": "***", "n": 1}
    assert set(found.after or {}) == {"bytes", "sha256"}


@pytest.mark.parametrize(
    ("given", "login"),
    [
        ({}, None),
        ({"user": "jo", "password": "s3cret"}, "jo"),
        ({"url": ("nats://jo:s3cret@host:4222",)}, "jo"),
        ({"url": ("jo:s3cret@host",)}, "jo"),
        ({"url": ("nats://s3cret@host",)}, None),  # a token
    ],
)
def test_the_login_is_named_without_its_secret(given: dict[str, Any], login: str | None) -> None:
    assert describe_login(NatsConfig(**given)) == login
