import math
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from msgspec import Raw

from router import outbox
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.add import CHANNEL, add, new_id
from router.mailbox.policies import PolicyViolated
from tests.support.mailbox import add_events, an_event
from tests.support.postgres import rows


@dataclass
class Measured:
    """A value that orjson writes as an object."""

    value: float


pytestmark = pytest.mark.both_majors


async def found(dsn: str) -> list[tuple[object, ...]]:
    return await rows(
        dsn,
        (
            "SELECT id, aggregate_type, aggregate_id, event_type, event_version, payload FROM "
            "outbox_events"
        ),
    )


async def test_an_event_is_committed_with_the_transaction_that_it_tells_of(dsn: str) -> None:
    """SD-2."""
    event = an_event("o-17", {"amount": 5}, event_version=2)
    await add_events(dsn, event)
    assert await found(dsn) == [(event.id, "order", "o-17", "order_paid", 2, {"amount": 5})]


async def test_an_event_of_a_transaction_that_is_rolled_back_never_was(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await outbox.add(connection, an_event())
        await connection.rollback()
    assert await found(dsn) == []


async def test_a_synchronous_connection_adds_without_await(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        outbox.add(connection, an_event("o-1", {"n": 1}))
        assert connection.execute("SELECT payload FROM outbox_events").fetchall() == [({"n": 1},)]


PROGRAM = """\
import psycopg
from router import outbox

async def pay(connection: psycopg.AsyncConnection, event: outbox.OutboxEvent) -> None:
    await outbox.add(connection, event)
    outbox.add(connection, event)

def pay_at_once(connection: psycopg.Connection, event: outbox.OutboxEvent) -> None:
    outbox.add(connection, event)
"""


@pytest.mark.timeout(660)
def test_a_forgotten_await_is_seen_by_mypy(tmp_path: Path) -> None:
    """As mypy is without a setting: it tells of a Coroutine that is not used, of an Awaitable it
    says nothing unless asked.
    """
    (tmp_path / "pay.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        f"--cache-dir={tmp_path / 'cache'}",
        "--no-error-summary",
        "pay.py",
    ]
    told = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
    )
    assert [line.partition(": ")[0] for line in told.stdout.splitlines() if "error:" in line] == [
        "pay.py:6"
    ], told.stderr
    assert "[unused-coroutine]" in told.stdout


async def test_plain_sql_as_documented_is_enough(dsn: str) -> None:
    """SD-26: every other column has its default."""
    insert = """INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
                VALUES (%s, 'order', 'o-1', 'order_paid', %s)"""
    await rows(dsn, insert, new_id(), '{"amount": 5}')
    ((version, attempts, published, age),) = await rows(
        dsn,
        (
            "SELECT event_version, publish_attempts, published_at, now() - occurred_at FROM "
            "outbox_events"
        ),
    )
    assert (version, attempts, published) == (1, 0, None)
    assert isinstance(age, timedelta)
    assert age < timedelta(minutes=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": ""},
        {"kind": "order.paid"},
        {"kind": "order paid"},
        {"kind": "paid\r\nX: y"},
        {"event_version": 0},
    ],
    ids=str,
)
async def test_an_event_that_makes_no_subject_is_refused(
    dsn: str, fields: dict[str, object]
) -> None:
    """SD-7, POL-047-001."""
    with pytest.raises(PolicyViolated) as refused:
        await add_events(dsn, an_event(**fields))  # type: ignore[arg-type]
    assert refused.value.code == "INVALID_OUTBOX"


@pytest.mark.parametrize("payload", [{"text": "a\x00b"}, {1, 2}], ids=["U+0000", "no JSON"])
async def test_a_payload_that_jsonb_cannot_hold_is_refused(dsn: str, payload: object) -> None:
    """X2."""
    with pytest.raises(PolicyViolated):
        await add_events(dsn, an_event(payload=payload))


NOT_FINITE = [
    math.nan,
    math.inf,
    {"a": [1, {"b": -math.inf}]},
    (None, math.nan),
    Measured(math.nan),
]


@pytest.mark.parametrize("payload", NOT_FINITE, ids=str)
async def test_a_number_that_json_has_not_is_refused(dsn: str, payload: object) -> None:
    """It became null, and a null is another payload."""
    with pytest.raises(PolicyViolated) as refused:
        await add_events(dsn, an_event(payload=payload))
    assert refused.value.code == "INVALID_OUTBOX"


async def test_text_that_spells_an_escape_is_text(dsn: str) -> None:
    """A backslash, the letter u and four zeros are six characters, none of them U+0000; null is
    null.
    """
    payload = {"regex": "[\\u0000-\\u001f]", "\\\\u0000": None, "measured": {"value": 1.5}}
    await add_events(dsn, an_event(payload={**payload, "measured": Measured(1.5)}))
    assert await rows(dsn, "SELECT payload FROM outbox_events") == [(payload,)]


@pytest.mark.parametrize("text", [r'"a\u0000"', r'{"\\\u0000": 1}'])
async def test_an_escaped_null_character_is_refused(dsn: str, text: str) -> None:
    with pytest.raises(PolicyViolated, match="U\\+0000"):
        await add_events(dsn, an_event(payload=Raw(text.encode())))


async def test_a_service_whose_inboxes_take_more_may_add_more(dsn: str) -> None:
    """`max_bytes` is the inboxes' `max_payload_bytes`, at most 8 MiB as there."""
    event = an_event(payload="x" * (2 * 1024 * 1024))
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await add(connection, event, max_bytes=4 * 1024 * 1024)
        with pytest.raises(PolicyViolated):
            await add(
                connection, an_event(payload="x" * (9 * 1024 * 1024)), max_bytes=16 * 1024 * 1024
            )
    assert await rows(dsn, "SELECT length(payload::text) FROM outbox_events") == [
        (2 * 1024 * 1024 + 2,)
    ]


async def test_json_text_is_taken_as_it_is(dsn: str) -> None:
    await add_events(dsn, an_event(payload=Raw(b'{"n": 1.50}')))
    assert await rows(dsn, "SELECT payload::text FROM outbox_events") == [('{"n": 1.50}',)]


@pytest.mark.parametrize(("ahead_s", "code"), [(-1, None), (30, None), (90, "FUTURE_EVENT")])
async def test_the_databases_clock_says_what_the_future_is(
    dsn: str, ahead_s: int, code: str | None
) -> None:
    """SD-8, POL-047-002: clocks differ, so the table leaves a minute; such an event is published
    when its time has come.
    """
    event = an_event(occurred_at=datetime.now(UTC) + timedelta(seconds=ahead_s))
    if code is None:
        assert await add_events(dsn, event) == [event.id]
        return
    with pytest.raises(PolicyViolated) as refused:
        await add_events(dsn, event)
    assert refused.value.code == code


@pytest.mark.parametrize(("ahead_s", "is_taken"), [(0, True), (30, True), (61, False)])
async def test_the_tables_check_leaves_a_minute(dsn: str, ahead_s: int, is_taken: bool) -> None:
    """SD-26, chk_occurred_not_future."""
    insert = """INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at)
                VALUES (gen_random_uuid(), 'order', 'o-1', 'order_paid', '{}', now() + make_interval(secs => %s))"""
    if is_taken:
        await rows(dsn, insert, ahead_s)
    else:
        with pytest.raises(psycopg.errors.CheckViolation):
            await rows(dsn, insert, ahead_s)


async def test_a_listening_relay_is_woken_when_asked_for(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as listener:
        await listener.execute(f"LISTEN {CHANNEL}")
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await add(connection, an_event(), wake=True)
        assert [notice.channel async for notice in listener.notifies(timeout=60, stop_after=1)] == [
            CHANNEL
        ]


def test_new_ids_rise_and_are_version_7() -> None:
    """An index takes them in at its end."""
    ids = [new_id() for _ in range(10_000)]
    assert ids == sorted(set(ids))
    assert {one.version for one in ids} == {7}


def test_an_events_defaults_are_the_tables() -> None:
    event = OutboxEvent(UUID(int=1), "order", "o-1", "order_paid", {})
    assert (
        event.event_version,
        event.publish_attempts,
        event.published_at,
        event.publish_error,
    ) == (1, 0, None, None)
