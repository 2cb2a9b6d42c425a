"""A command that is killed between its write and its audit event: run again, it changes nothing and
leaves the event.
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from router.core.crashpoints import KILLED_EXIT_CODE
from tests.support.cli import COMMAND, call_command_async, clean_environment
from tests.support.policy import a_document, a_provider
from tests.support.stories import a_topology

PRICE = {
    "provider": "openai",
    "model": "gpt-4o",
    "input": "2.50",
    "output": "10",
    "currency": "USD",
}
ENTRY = ("extension", "register", "--id", "pii", "--type", "validator")
BUDGET = ("budget", "put", "acme", "--amount", "10", "--window", "day")
# The words before, and those of the command that is killed; and what its event says of versions.
WRITES: dict[
    str, tuple[tuple[tuple[str, ...], ...], tuple[str, ...], tuple[int | None, int | None]]
] = {
    "price put": ((), ("price", "put", "price.json"), (None, 1)),
    "price delete": (
        (("price", "put", "price.json"),),
        ("price", "delete", "openai", "gpt-4o"),
        (1, None),
    ),
    "extension register": ((), ENTRY, (None, 1)),
    "extension disable": ((ENTRY,), ("extension", "disable", "pii"), (None, 2)),
    "extension remove": ((ENTRY,), ("extension", "remove", "pii", "--yes"), (1, None)),
    "policy delete": (
        (("policy", "put", "acme", "default", "policy.json"),),
        ("policy", "delete", "acme", "default"),
        (1, None),
    ),
    "budget delete": ((BUDGET,), ("budget", "delete", "acme", "day"), (1, None)),
}


@pytest.fixture
async def shell(nats_url: str, tmp_path: Path) -> AsyncIterator[Path]:
    """A server with a router's topology, and an operator's files."""
    (tmp_path / "price.json").write_text(json.dumps(PRICE))
    (tmp_path / "policy.json").write_text(json.dumps(a_document(a_provider("openai"))))
    async with a_topology(nats_url):
        yield tmp_path


async def run(url: str, files: Path, words: tuple[str, ...], **environ: str) -> int:
    line, whole = (
        [*COMMAND, *words, "--nats-url", url],
        clean_environment({"PYTHONPATH": os.getcwd(), **environ}),
    )
    done = await asyncio.to_thread(
        subprocess.run, line, env=whole, cwd=files, capture_output=True, check=False, timeout=120
    )
    return done.returncode


async def list_events(url: str, command: str) -> list[dict[str, Any]]:
    return [
        one
        for one in (await call_command_async("audit", "--json", "--nats-url", url)).lines
        if one["command"] == command
    ]


@pytest.mark.parametrize("command", WRITES)
async def test_it_leaves_its_event_when_it_runs_again_and_no_second_one(
    nats_url: str, shell: Path, command: str
) -> None:
    before, words, (was, now) = WRITES[command]
    for earlier in before:
        assert await run(nats_url, shell, earlier) == 0
    assert await run(nats_url, shell, words, CRASHPOINT="audit_recording") == KILLED_EXIT_CODE
    assert await list_events(nats_url, command) == []
    for _ in range(2):
        # it is deleted already
        assert await run(nats_url, shell, words) == (0 if now is not None else 1)
    (event,) = await list_events(nats_url, command)
    assert (
        (event.get("before") or {}).get("version"),
        (event.get("after") or {}).get("version"),
    ) == (was, now)
    assert event["note"] == "the command that wrote it ended before this event"


async def test_what_is_audited_leaves_no_second_event(nats_url: str, shell: Path) -> None:
    for _ in range(3):
        assert await run(nats_url, shell, WRITES["price put"][1]) == 0
    for status in (0, 1, 1):
        assert await run(nats_url, shell, WRITES["price delete"][1]) == status
    assert [
        len(await list_events(nats_url, command)) for command in ("price put", "price delete")
    ] == [1, 1]


async def make_key(url: str) -> str:
    made = await call_command_async("key", "create", "acme", "--json", "--nats-url", url)
    assert made.status == 0, made.err
    key_id: str = made.json["key_id"]
    return key_id


async def test_a_key_s_revocation_leaves_its_event_with_the_tenant(
    nats_url: str, shell: Path
) -> None:
    words = ("key", "revoke", await make_key(nats_url))
    assert await run(nats_url, shell, words, CRASHPOINT="audit_recording") == KILLED_EXIT_CODE
    for _ in range(2):
        assert await run(nats_url, shell, words) == 1
    (event,) = await list_events(nats_url, "key revoke")
    assert (event["target"], event["tenant_id"]) == (words[2], "acme")


async def test_a_rotation_that_was_killed_before_its_second_event_leaves_it_when_it_is_refused(
    nats_url: str, shell: Path
) -> None:
    words = ("key", "rotate", await make_key(nats_url))
    assert await run(nats_url, shell, words, CRASHPOINT="audit_recording:2") == KILLED_EXIT_CODE
    assert await list_events(nats_url, "key rotate") == []
    for _ in range(2):
        assert await run(nats_url, shell, words) == 1
    (event,) = await list_events(nats_url, "key rotate")
    assert (event["target"], event["tenant_id"]) == (words[2], "acme")
    assert event["after"]["replaced_by"] != words[2]


async def test_a_rotation_that_was_killed_before_its_first_event_is_done_anew(
    nats_url: str, shell: Path
) -> None:
    words = ("key", "rotate", await make_key(nats_url))
    assert await run(nats_url, shell, words, CRASHPOINT="audit_recording") == KILLED_EXIT_CODE
    assert await run(nats_url, shell, words) == 0
    (rotated,) = await list_events(nats_url, "key rotate")
    (unshown,) = await list_events(nats_url, "key revoke")
    assert unshown["before"]["replaces"] == words[2]
    listed = (await call_command_async("key", "list", "--json", "--nats-url", nats_url)).lines
    assert {one["key_id"] for one in listed} == {words[2], rotated["after"]["replaced_by"]}
