"""`router.Bus`: what the first steps show, what it says when it is not open, and a life beside a
broker that is away.
"""

import asyncio
import re
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from router import Bus
from router.bus import SqliteProcessed, StoreUnavailable
from router.bus.processed import Write
from router.contracts.envelope import MessageEnvelope
from router.core.errors import BrokerUnavailable, Misconfigured, PermissionDenied, RouterError
from tests.support.broker import Broker
from tests.support.bus import (
    QUICK,
    a_bus,
    an_envelope,
    read_bus_stream,
    run_consumer,
    wait_until_settled,
)
from tests.support.cli import clean_environment
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "first-steps.md"


@pytest.fixture(scope="module")
def limited_url() -> Iterator[str]:
    """Its user may ask for no consumer."""
    limits = 'permissions: {publish: {deny: ["$JS.API.CONSUMER.INFO.>"]}}'
    with Broker(f"authorization {{ users [ {{user: a, password: p, {limits}}} ] }}") as broker:
        yield broker.url.replace("nats://", "nats://a:p@")


class _Locked(SqliteProcessed):
    """A file that another process holds."""

    is_locked = True
    refused = 0

    async def mark(self, key: str, write: Write | None = None) -> bool:
        if self.is_locked:
            self.refused += 1
            raise StoreUnavailable("locked")
        self.marked = key
        return await super().mark(key, write)

    async def was_marked(self) -> bool:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute("SELECT key FROM processed").fetchall() == [(self.marked,)]


async def test_the_page_shows_what_runs(nats_url: str, tmp_path: Path) -> None:
    """Run twice, as a person would: the event is the same message, and the row is there once."""
    (text,) = re.findall(r"```python\n(# loops.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert re.search(r"^python loops\.py ", PAGE.read_text(), re.MULTILINE), (
        "the command that runs it"
    )
    file = tmp_path / "loops.py"
    file.write_text(text.replace("nats://127.0.0.1:4222", nats_url))
    environ = clean_environment({"PYTHONPATH": str(PAGE.parents[2])})
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(file), cwd=tmp_path, env=environ, stdout=PIPE
    )
    try:
        await until(lambda: _loops(tmp_path / "loops.db") == ["loop_1"])
    finally:
        process.terminate()
        said, _ = await process.communicate()
    assert (process.returncode, said) == (0, b"LoopCreated loop_1\n"), (
        "a person sees that something happened"
    )
    async with a_bus(nats_url, "sr", consumer_prefix="sr-consumer") as bus:
        await bus.publish(
            "LoopCreated",
            {"loop_id": "loop_1"},
            message_id="evt_1",
            actor_id="user_1",
            actor_kind="HUMAN",
        )
        assert len(await read_bus_stream(bus, "events")) == 1


def _loops(file: Path) -> list[str]:
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'loops'").fetchall():
            return []
        return [row[0] for row in connection.execute("SELECT id FROM loops")]


async def test_a_bus_that_is_not_open_says_how_to_open_it() -> None:
    bus = Bus("nats://127.0.0.1:1")
    for attempt in (lambda: bus.publisher, lambda: bus.jetstream):
        with pytest.raises(RouterError, match="async with Bus"):
            attempt()


async def test_a_server_that_is_not_there_is_told_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SR-30."""
    monkeypatch.setenv("NATS_URL", "nats://127.0.0.1:1")
    monkeypatch.setenv("ROUTER_NATS__CONNECT_TIMEOUT_MS", "50")
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        async with Bus():
            raise AssertionError("it opened")


async def test_a_role_that_may_make_nothing_finds_what_others_made(
    nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/reference/contracts.md#topology, `topology = check`: what is missing is told with its
    name.
    """
    variables = {"NATS_STREAM_PREFIX": prefix, "ROUTER_TOPOLOGY": "check"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with Bus(nats_url) as bus:
        assert await bus.jetstream.stream(f"{prefix}-events") is None
        with pytest.raises(
            Misconfigured,
            match=(
                r"topology: .*projector is missing, and topology=check creates nothing: "
                r".*topology=create"
            ),
        ):
            await bus.consume("projector", lambda _: None)


async def test_a_consumer_that_may_not_see_its_durable_is_told_at_once(
    limited_url: str, prefix: str
) -> None:
    """Waiting would not help: its permissions must be corrected."""
    async with a_bus(limited_url, prefix) as bus:
        with pytest.raises(
            PermissionDenied, match=r"no permission to publish to \$JS\.API\.CONSUMER\.INFO"
        ):
            await asyncio.wait_for(bus.consume("projector", lambda _: None), 60)


async def test_a_store_that_is_away_pauses_the_consumer_and_no_message_pays(
    nats_url: str, prefix: str, tmp_path: Path
) -> None:
    """docs/explanation/durability.md#bus-keys: nothing is acknowledged that is not marked; nothing
    is spent while it cannot be.

    Nor does the handler run again, once a second for as long as the store is away: only the mark is
    missing.
    """
    handled: list[str] = []

    def handle(envelope: MessageEnvelope) -> None:
        handled.append(envelope.message_id)

    async with a_bus(nats_url, prefix) as bus:
        keys = _Locked(tmp_path / "keys.db", "d")
        async with run_consumer(bus, handle, store=keys, options=QUICK):
            await bus.publisher.event(an_envelope())
            await until(lambda: keys.refused >= 3)
            assert await read_bus_stream(bus, "dlq") == []
            keys.is_locked = False
            await wait_until_settled(bus)
        assert await keys.was_marked()
    assert len(handled) == 1


@pytest.mark.parametrize(
    ("category", "only"),
    [
        ("events", "nonesuch"),
        ("events", "Loop"),
        ("events", "iteration.start"),
        ("commands", "loop"),
    ],
)
async def test_a_domain_or_command_that_does_not_exist_is_refused(
    nats_url: str, prefix: str, category: str, only: str
) -> None:
    """Nothing would ever come; the names that there are are told."""
    async with a_bus(nats_url, prefix) as bus, asyncio.timeout(30):
        with pytest.raises(
            Misconfigured, match=r"only: .*(loop, iteration|iteration.start, iteration.complete)"
        ):
            await bus.consume("projector", lambda _: None, category=category, only=only)
        assert (
            await bus.jetstream.consumer(f"{prefix}-{category}", bus.settings.durable("projector"))
            is None
        )
