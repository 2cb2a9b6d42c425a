"""`router key` on a real server: made, listed, rotated, revoked; each leaves its event
(docs/how-to/gateway-keys.md).
"""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from router.core.clock import now_ms
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.gateway.keys.model.api_key import KeyTable
from router.gateway.keys.store import KeyStore
from tests.support.cli import CommandResult, call_command_async
from tests.support.stories import a_topology

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "gateway-keys.md"
TEXT = re.compile(r"rk_[0-9a-f]{12}_[0-9a-f]{64}")


@pytest.fixture
def store(connection: Connection) -> KeyStore:
    return KeyStore(DocumentBucket(JetStream(connection), "ROUTER_KEYS"))


class Shell:
    """An operator of a server with a router's topology."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def key(self, *words: str) -> CommandResult:
        return await call_command_async("key", *words, "--nats-url", self.url)

    async def make(self, *words: str) -> dict[str, Any]:
        done = await self.key("create", *words, "--json")
        assert done.status == 0, done.err
        made: dict[str, Any] = done.json
        return made

    async def list_events(self) -> list[dict[str, Any]]:
        done = await call_command_async("audit", "--json", "--nats-url", self.url)
        return [one for one in done.lines if one["command"].startswith("key ")]


@pytest.fixture
async def shell(nats_url: str) -> Any:
    async with a_topology(nats_url):
        yield Shell(nats_url)


async def find(store: KeyStore, text: str, at_ms: int | None = None) -> bool:
    table = KeyTable()
    table.replace([stored.key for stored in await store.list()])
    return table.find(text, at_ms or now_ms()) is not None


async def test_the_commands_of_the_page_work_as_they_stand_there(shell: Shell) -> None:
    lines = re.findall(r"^router key ([^#\n]*)", PAGE.read_text(), re.MULTILINE)
    key_id = ""
    for line in lines:
        words = line.replace("0f3a9c21b7d4", key_id).split()
        done = await shell.key(*words)
        assert done.status == 0, (line, done.err)
        key_id = key_id or done.out[:12]
    assert [line.split()[0] for line in lines] == ["create", "list", "show", "rotate", "revoke"]


async def test_a_key_is_shown_once_and_listed_without_its_secret(
    shell: Shell, store: KeyStore
) -> None:
    made = await shell.make(
        *("acme", "--name", "billing", "--policies", "default, cheap", "--expires", "30d"),
        *("--rate", "20/40", "--author", "ann"),
    )
    assert TEXT.fullmatch(made["key"])
    assert await find(store, made["key"])
    told = {name: made[name] for name in ("tenant", "name", "policies", "rate", "author", "state")}
    assert told == {
        "tenant": "acme",
        "name": "billing",
        "policies": ["default", "cheap"],
        "rate": "20/40",
        "author": "ann",
        "state": "active",
    }
    times = [datetime.fromisoformat(made[name]) for name in ("created", "expires")]
    assert (times[1] - times[0]).days in (29, 30)
    shown = await shell.key("show", made["key_id"], "--json")
    assert shown.json == {name: made[name] for name in made if name not in ("ok", "key")}
    for words in (("list",), ("list", "--json"), ("list", "acme"), ("show", made["key_id"])):
        done = await shell.key(*words)
        assert made["key_id"] in done.out, words
        assert not re.search(r"[0-9a-f]{64}", done.out.replace(shown.json["key_id"], "")), words
    assert (await shell.key("list", "globex")).out.strip() == "no keys"


async def test_for_people_the_key_stands_in_a_line_of_its_own(shell: Shell) -> None:
    done = await shell.key("create", "acme")
    (text,) = [line for line in done.out.splitlines() if TEXT.fullmatch(line)]
    assert ("one time" in done.out, text in done.err) == (True, False)
    assert "acme" in (await shell.key("list")).out


@pytest.mark.parametrize(
    ("words", "says", "status"),
    [
        ((".acme",), "a tenant is an id", 2),
        (("acme", "--name", "x" * 129), "name: should be at most 128", 1),
        (("acme", "--policies", "a,,b"), "policies: should be", 1),
        (("acme", "--policies", ",".join("abcdefgh"[n % 8] for n in range(65))), "policies: ", 1),
        # an empty variable of a shell is no wider key
        (("acme", "--policies", ""), "policies: should be", 1),
        (("acme", "--expires", ""), "neither like 10m", 2),
        (("acme", "--rate", ""), "requests a second, and a burst", 2),
        (("acme", "--expires", "soon"), "neither like 10m", 2),
        (("acme", "--expires", "0d"), "expires: should be a time ahead", 1),
        (("acme", "--expires", "2020-01-01"), "expires: should be a time ahead", 1),
        (("acme", "--expires", "11000d"), "expires: should be a time ahead", 1),
        (("acme", "--rate", "many"), "requests a second, and a burst", 2),
        (("acme", "--rate", "0"), "rate: should be", 1),
        (("acme", "--rate", "1/0"), "rate: should be", 1),
    ],
)
async def test_what_is_not_legal_is_named_and_nothing_is_made(
    shell: Shell, store: KeyStore, words: tuple[str, ...], says: str, status: int
) -> None:
    done = await shell.key("create", *words)
    flat = " ".join(done.err.replace("│", " ").split())
    assert (done.status, says in flat) == (status, True), done.err
    assert await store.list() == []


async def test_a_rotated_key_is_in_force_until_the_overlap_is_over(
    shell: Shell, store: KeyStore
) -> None:
    old = await shell.make("acme", "--name", "billing", "--expires", "90d", "--policies", "cheap")
    new = (await shell.key("rotate", old["key_id"], "--overlap", "1h", "--json")).json
    assert (new["replaces"], new["name"], new["policies"]) == (old["key_id"], "billing", ["cheap"])
    shown = (await shell.key("show", old["key_id"], "--json")).json
    assert (shown["state"], shown["replaced_by"]) == ("replaced", new["key_id"])
    hour = now_ms() + 3_600_000
    assert [await find(store, one["key"]) for one in (old, new)] == [True, True]
    assert [await find(store, one["key"], hour + 1) for one in (old, new)] == [False, True]
    again = await shell.key("rotate", old["key_id"])
    assert (again.status, f"replaced by {new['key_id']}" in again.err) == (1, True)
    # the newer one leaked: the old one may be rotated once more
    assert (await shell.key("revoke", new["key_id"])).status == 0
    third = (await shell.key("rotate", old["key_id"], "--overlap", "0s", "--json")).json
    assert [await find(store, one["key"]) for one in (old, new, third)] == [False, False, True]
    ended = await shell.key("rotate", third["key_id"], "--overlap", "200000d", "--json")
    assert (await shell.key("show", third["key_id"], "--json")).json["expires"] == third["expires"]
    assert datetime.fromisoformat(ended.json["expires"]) > datetime.fromisoformat(third["expires"])


async def test_a_revoked_key_is_gone_and_one_that_is_none_is_not_repeated(
    shell: Shell, store: KeyStore
) -> None:
    made = await shell.make("acme")
    assert (await shell.key("revoke", made["key_id"], "--json")).json["revoked"]
    assert not await find(store, made["key"])
    for command in ("show", "revoke", "rotate"):
        gone = await shell.key(command, made["key_id"])
        assert (gone.status, "there is no key" in gone.err) == (1, True), gone.err
        whole = await shell.key(command, made["key"])
        assert (whole.status, made["key"][16:] in whole.err) == (1, False)
        assert "between the two _" in whole.err


async def test_each_write_leaves_an_event_with_rights_and_no_secret(shell: Shell) -> None:
    old = await shell.make("acme", "--name", "billing")
    new = (await shell.key("rotate", old["key_id"], "--json")).json
    await shell.key("revoke", old["key_id"])
    events = await shell.list_events()
    assert [(one["command"], one["target"], one["tenant_id"]) for one in events] == [
        ("key create", old["key_id"], "acme"),
        ("key create", new["key_id"], "acme"),
        ("key rotate", old["key_id"], "acme"),
        ("key revoke", old["key_id"], "acme"),
    ]
    assert events[0]["after"]["name"] == "billing"
    assert not re.search(r"[0-9a-f]{64}", json.dumps(events))
