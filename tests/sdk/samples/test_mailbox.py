"""The mailbox's page: its files and its SQL, followed from a payment to a shipment."""

import re
import sys
from importlib import import_module
from pathlib import Path

import psycopg
import pytest
from nats.aio.client import Client

from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.broker import Broker
from tests.support.inbox import an_inbox, read_dead_letters
from tests.support.mailbox import an_outbox_stream, count_unpublished, run_rounds
from tests.support.pages import files_of, importable
from tests.support.postgres import Postgres, rows
from tests.support.waiting import until

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "use-the-mailbox.md").read_text()
FILES = files_of(PAGE)
TABLES = re.findall(r"'(CREATE TABLE .*)'\n", PAGE)
(PLAIN_INSERT,) = re.findall(r'"(INSERT INTO outbox_events.*?)"\n', PAGE, re.DOTALL)
DOCK = {
    "context": "dock",
    "stream": "SEA_EVENTS",
    "durable": "dock__from_sea",
    "filter_subject": "sea.event.>",
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importable(FILES, tmp_path, monkeypatch)


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    """Both contexts in one database, with the page's tables."""
    dsn = await postgres.database()
    for table in TABLES:
        await rows(dsn, table)
    return dsn


def paid(dsn: str, order: str, amount: int) -> None:
    with psycopg.connect(dsn) as connection:
        import_module("pay").pay(connection, order, amount)


async def test_what_is_paid_is_shipped_and_what_is_no_order_is_a_dead_letter(
    broker: Broker, nc: Client, dsn: str
) -> None:
    paid(dsn, "o-1", 5)
    with pytest.raises(psycopg.errors.CheckViolation):
        paid(dsn, "o-2", -5)
    assert await count_unpublished(dsn) == 1
    await rows(dsn, PLAIN_INSERT)
    async with Database(DatabaseConfig(dsn)) as database, an_outbox_stream(broker) as place:
        await run_rounds(database, place)
    assert await count_unpublished(dsn) == 0
    async with an_inbox(broker.url, dsn, import_module("ship").handle, **DOCK):
        await until(lambda: rows(dsn, "SELECT 1 FROM shipments"), what="a shipment")
        await until(lambda: read_dead_letters(nc, "DOCK_DLQ"), what="a letter")
    assert await rows(dsn, "SELECT order_id, because FROM shipments") == await rows(
        dsn, "SELECT aggregate_id, id FROM outbox_events WHERE aggregate_id = 'o-1'"
    )
    (letter,) = await read_dead_letters(nc, "DOCK_DLQ")
    assert "handler_poison" in str(letter)


async def test_the_pages_test_passes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCK", dsn)
    await import_module("test_ship").test_what_is_paid_is_shipped()
    assert await rows(dsn, "SELECT 1 FROM shipments") == []


async def test_its_sql_prints_rows(
    dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paid(dsn, "o-1", 5)
    monkeypatch.setattr(sys, "argv", ["sql.py", dsn, "SELECT * FROM orders"])
    import_module("sql")
    assert capsys.readouterr().out == "o-1 5\n"
