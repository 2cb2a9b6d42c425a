"""What one event, aggregate or type of event may do to the others in its outbox."""

import psycopg
import pytest
from msgspec import Raw

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox import page as paging
from router.mailbox.outbox.add import add, new_id
from router.mailbox.outbox.repository import PostgresOutboxAdapter
from router.mailbox.policies import PolicyViolated
from router.mailbox.postgres import Database
from tests.support.mailbox import (
    OutboxStream,
    a_relay,
    add_events,
    an_event,
    config,
    count_unpublished,
    fill_outbox,
    row,
    run_rounds,
)
from tests.support.postgres import rows
from tests.support.waiting import until

MIB = 1024 * 1024


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a megabyte, so that a test need not write dozens of them."""
    monkeypatch.setattr(paging, "PAGE_BYTES", MIB)


async def only(place: OutboxStream, *subjects: str) -> None:
    """From now on the stream takes these alone."""
    info = await place.patient.stream("SEA_EVENTS") or {}
    await place.patient.ask("STREAM.UPDATE.SEA_EVENTS", {**info["config"], "subjects": subjects})


@pytest.mark.parametrize("is_atomic", [True, False])
@pytest.mark.parametrize("page", [2, 100])
async def test_a_type_of_event_that_the_stream_does_not_take_stops_no_other(
    dsn: str, database: Database, place: OutboxStream, is_atomic: bool, page: int
) -> None:
    """Its events fill the first page, or end it: nothing else was ever published."""
    await only(place, "sea.event.order_paid.v1")
    lost = [an_event(f"lost-{number}", kind="order_lost") for number in range(2)]
    behind = an_event("lost-0")
    others = [an_event(f"o-{number}") for number in range(4)]
    await add_events(dsn, *lost, behind, *others, last := an_event("lost-2", kind="order_lost"))
    for _ in range(4):
        await run_rounds(database, place, of=config(atomic=is_atomic), page=page)
    assert sorted(await place.ids()) == sorted(str(event.id) for event in others)
    for event in (*lost, last):
        found = await row(dsn, event.id)
        assert (found.attempts, found.is_parked) == (3, True)
        assert "no subject of the stream" in (found.error or "")
    assert (await row(dsn, behind.id)).attempts == 0, "what is parked holds its own aggregate"


LARGE = """
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    SELECT gen_random_uuid(), 'order', 'o-' || n, 'order_paid',
           to_jsonb((SELECT string_agg(md5(k::text), '') FROM generate_series(1, 1000) AS k))
    FROM generate_series(1, 40) AS n"""  # 32 kB each, which no compression makes smaller


@pytest.mark.usefixtures("small_pages")
async def test_a_page_is_bounded_in_bytes_and_the_rest_follows(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """A thousand rows were a page, however large: of the largest that is gigabytes, at each start
    again.
    """
    await rows(dsn, LARGE)
    async with database.transaction() as session:
        outbox = PostgresOutboxAdapter(session, limit=1000)
        pages = [await outbox.find_unpublished() for _ in range(3)]
    sizes = [
        sum(len(bytes(event.payload)) for event in page if isinstance(event.payload, Raw))
        for page in pages
    ]
    assert [len(page) for page in pages] == [32, 8, 0]
    assert max(sizes) <= MIB
    await fill_outbox(dsn, 10)
    await run_rounds(database, place)
    assert (await count_unpublished(dsn), len(await place.events())) == (0, 50)


@pytest.mark.usefixtures("small_pages")
async def test_what_compresses_well_counts_for_more_than_it_takes(
    dsn: str, database: Database
) -> None:
    query = """
        INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
        SELECT gen_random_uuid(), 'order', 'o-' || n, 'order_paid', to_jsonb(repeat('x', 400000)) FROM generate_series(1, 40) AS n"""
    await rows(dsn, query)
    async with database.transaction() as session:
        page = await PostgresOutboxAdapter(session, limit=1000).find_unpublished()
    assert (
        0
        < sum(len(bytes(event.payload)) for event in page if isinstance(event.payload, Raw))
        <= 8 * MIB
    )


async def test_a_row_that_the_database_cannot_tell_is_found_and_parked(
    dsn: str, database: Database, place: OutboxStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As text a payload may have more than a gigabyte: then the whole page was refused, at each
    start again. Here a division does it.
    """
    broken = paging.SELECT_PAGE.replace(
        "payload::text",
        "(CASE WHEN payload ? 'boom' THEN (1 / (event_version - 1))::text ELSE payload::text END)",
    )
    monkeypatch.setattr(paging, "SELECT_PAGE", broken)
    await add_events(
        dsn,
        *(an_event(f"o-{number}") for number in range(5)),
        poison := an_event("p", {"boom": 1}),
        an_event("p"),
        an_event("last"),
    )
    async with a_relay(database, place) as relay:
        await until(lambda: _left(dsn, 2))
        found = await row(dsn, poison.id)
        assert (found.is_parked, found.error) == (True, "PostgreSQL error 22012: DivisionByZero")
        await until(lambda: relay.trouble is None)
    assert len(await place.ids()) == 6


async def _left(dsn: str, count: int) -> bool:
    return await count_unpublished(dsn) == count


# -- what a service may add ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": "x" * MAX_PAYLOAD_BYTES},
        {"payload": Raw(b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1))},
        {"payload": {"n": 10**400}},
        {"payload": Raw(b"NaN")},
        {"payload": Raw(b"1e999")},
        {"payload": "\x00"},
        {"aggregate_id": "o" * 513},
        {"aggregate_type": "o" * 513},
        {"aggregate_id": "o\x00"},
        {"aggregate_id": "\ud800"},
        {"event_type": "order paid"},
        {"event_type": "o" * 129},
        {"event_version": 0},
        {"event_version": 10**9},
    ],
)
async def test_an_event_that_no_inbox_takes_is_not_added(
    dsn: str, fields: dict[str, object]
) -> None:
    """INVALID_OUTBOX, before the database hears of it: the service's transaction goes on."""
    whole = {
        "aggregate_type": "order",
        "aggregate_id": "o-1",
        "event_type": "order_paid",
        "payload": {},
    } | fields
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        with pytest.raises(PolicyViolated):
            await add(connection, OutboxEvent(new_id(), **whole))  # type: ignore[arg-type]
        await add(connection, an_event())
    assert await count_unpublished(dsn) == 1
