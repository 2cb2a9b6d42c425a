"""A store that another program wrote to: an agent refuses to open it, and `router agent verify`
reports it.
"""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from router.agents.inspection import verify
from router.agents.state import MAX_STATE_NAME, MAX_STATE_VALUE_BYTES
from router.core.errors import Misconfigured
from router.core.outcome import Dead, Done
from router.sdk.agent import Context, Envelope, Outgoing
from router.sdk.samples.agents.ledger import Ledger
from tests.support.agents import a_batch_bench, a_message

POST = "UPDATE memory SET value = '1000000' WHERE name = 'balance:mallory'"
FOREIGN = (
    f"CREATE TRIGGER pay AFTER INSERT ON outgoing BEGIN {POST}; END",
    "CREATE VIEW seen AS SELECT * FROM memory",
    "CREATE TABLE notes (text TEXT)",
    "CREATE UNIQUE INDEX once ON outgoing (subject)",
    "DROP INDEX outgoing_unsent",
    "ALTER TABLE memory ADD COLUMN note TEXT",
    'CREATE TABLE "\x1b[2J" (text TEXT)',
)
FAR = 2**63 - 1
FAR_AWAY = (
    f"UPDATE events SET place = {FAR}",
    f"UPDATE events SET turn = {FAR}",
    "UPDATE events SET turn = 9.3e18",
    "UPDATE events SET turn = 'soon'",
    "UPDATE events SET place = -5",
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """One event, applied."""
    with a_batch_bench(tmp_path / "s.db") as bench:
        bench.batch.handle([a_message(1)])
    return tmp_path / "s.db"


def write(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


def failing(path: Path) -> set[str]:
    return {one.name for one in verify(path) if one.verdict == "fail"}


def test_a_store_of_our_own_is_whole(store: Path) -> None:
    write(store, "ANALYZE")
    assert failing(store) == set()
    with a_batch_bench(store) as bench:
        assert isinstance(bench.batch.handle([a_message(2)])[0], Done)


@pytest.mark.parametrize("statement", FOREIGN)
def test_a_schema_that_is_not_ours_is_seen_and_refused(store: Path, statement: str) -> None:
    write(store, statement)
    assert failing(store) == {"schema"}
    (said,) = [one.detail for one in verify(store) if one.name == "schema"]
    assert said.isprintable()
    with (
        pytest.raises(Misconfigured, match="differs from an agent's event store"),
        a_batch_bench(store),
    ):
        pass


@pytest.mark.parametrize("statement", FAR_AWAY)
def test_a_position_behind_which_nothing_can_follow_is_seen_and_refused(
    store: Path, statement: str
) -> None:
    """A position of 2^63 - 1: the next one is no number of SQLite's, at each start and with each
    message.
    """
    write(store, statement)
    assert "positions" in failing(store)
    with pytest.raises(Misconfigured, match="restore a copy"), a_batch_bench(store):
        pass


@pytest.mark.parametrize("attempts", ["'many'", "9.3e18", "-1"])
def test_attempts_that_are_no_count_are_seen(store: Path, attempts: str) -> None:
    write(store, f"UPDATE events SET attempts = {attempts}")
    assert failing(store) == {"positions"}
    write(store, "UPDATE events SET status = 'received'")
    with a_batch_bench(store) as bench:  # its message is refused, or tried; those behind it go on
        assert [type(one) for one in bench.batch.handle([a_message(1), a_message(2)])][1] is Done


# -- what a command may do to the commands behind it -----------------------------------------------


def a_posting(sequence: int, amount: int, account: str = "acme") -> bytes:
    return json.dumps(
        {
            "type": "post",
            "idempotency_key": f"k-{sequence}",
            "payload": {"account": account, "amount": amount},
        }
    ).encode()


def test_amounts_that_add_up_above_64_bits_refuse_their_command_and_not_the_account(
    tmp_path: Path,
) -> None:
    amounts = (FAR, 2**64 - 1, FAR, -FAR, -FAR, -FAR, 5)
    with a_batch_bench(tmp_path / "l.db", Ledger()) as bench:
        outcomes = bench.batch.handle(
            [a_message(n, body=a_posting(n, amount)) for n, amount in enumerate(amounts)]
        )
        (balance,) = bench.rows("SELECT value FROM memory")
    assert [type(one) for one in outcomes] == [Done, Dead, Dead, Done, Done, Dead, Done]
    assert json.loads(balance[0]) == 5 - FAR


def test_an_accounts_name_has_a_length(tmp_path: Path) -> None:
    with a_batch_bench(tmp_path / "l.db", Ledger()) as bench:
        outcomes = bench.batch.handle(
            [
                a_message(n, body=a_posting(n, 1, name))
                for n, name in enumerate(("", "a" * 129, "a"))
            ]
        )
    assert [type(one) for one in outcomes] == [Dead, Dead, Done]


class Hoarder:
    """Remembers what it is told to, under the name that it is told."""

    name = "hoarder"

    def receive(self, envelope: Envelope) -> None:
        """Anything."""

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        ctx.state.put("n" * envelope.payload["name"], "v" * envelope.payload["value"])
        return []


def test_a_state_beyond_its_bounds_is_refused_with_its_message_alone(tmp_path: Path) -> None:
    """SQLite refuses a gigabyte, and the agent ended with it, at each start."""
    sizes = ((MAX_STATE_NAME + 1, 1), (0, 1), (1, MAX_STATE_VALUE_BYTES), (MAX_STATE_NAME, 1))
    with a_batch_bench(tmp_path / "h.db", Hoarder()) as bench:
        outcomes = bench.batch.handle(
            [a_message(n, name=name, value=value) for n, (name, value) in enumerate(sizes)]
        )
        assert [type(one) for one in outcomes] == [Dead, Dead, Dead, Done]
        assert {one.fault.code for one in outcomes if isinstance(one, Dead)} == {"state_too_large"}
        assert len(bench.rows("SELECT name FROM memory")) == 1


# JSON within JSON may hold an escape of the first
NAMES = {"surrogate": "\ud800", "tuple": ("a",), "none": None}


class Namer:
    """Reads, deletes and puts under a name that is no text."""

    name = "namer"

    def receive(self, envelope: Envelope) -> None:
        """Anything."""

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        name: Any = NAMES.get(envelope.payload["name"], envelope.payload["name"])
        match envelope.payload["way"]:
            case "get":
                ctx.state.get(name)
            case "delete":
                ctx.state.delete(name)
        ctx.state.put(name, True)
        return []


@pytest.mark.parametrize("way", ["put", "get", "delete"])
def test_a_state_whose_name_is_no_text_is_refused_with_its_message_alone(
    tmp_path: Path, way: str
) -> None:
    """The agent ended with the batch, and at each of its next starts."""
    with a_batch_bench(tmp_path / "n.db", Namer()) as bench:
        outcomes = bench.batch.handle(
            [a_message(n, name=name, way=way) for n, name in enumerate(("before", *NAMES, "after"))]
        )
        assert [type(one) for one in outcomes] == [Done, Dead, Dead, Dead, Done]
        assert {one.fault.code for one in outcomes if isinstance(one, Dead)} == {"state_too_large"}
        assert bench.rows("SELECT name FROM memory ORDER BY name") == [("after",), ("before",)]
