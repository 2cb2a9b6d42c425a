"""A database whose machine vanishes, or that hangs: nothing is closed, and nothing answers."""

import asyncio
import contextlib

import psycopg
import pytest

from router.mailbox import inbox_process as inbox
from router.mailbox import relay_process
from router.mailbox.inbox_process import InboxService
from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.relay_process import RelayService
from tests.mailbox.test_operators_see import at_work, settings_of
from tests.support.broker import Broker
from tests.support.inbox import EFFECTS, create_events, record
from tests.support.mailbox import an_outbox_stream
from tests.support.postgres import Postgres, rows
from tests.support.vanishing import a_path_to
from tests.support.waiting import until

LIVENESS = ("tcp_user_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count")


async def _liveness_of(dsn: str) -> list[str | None]:
    async with Database(DatabaseConfig(dsn)) as database, database.transaction() as session:
        given = session.driver.info.get_parameters()
    return [given.get(name) for name in LIVENESS]


async def test_a_connection_gives_a_silent_server_ten_seconds(dsn: str) -> None:
    """The system's own times are a quarter of an hour for what was sent, two hours for what is
    waited for.
    """
    assert await _liveness_of(dsn) == ["10000", "4", "2", "3"]


async def test_a_connection_string_may_say_otherwise(dsn: str) -> None:
    given = "tcp_user_timeout=60000&keepalives_idle=30"
    assert await _liveness_of(f"{dsn}?{given}") == ["60000", "30", "2", "3"]


@pytest.mark.parametrize("kind", ["inbox", "relay"])
async def test_a_service_is_not_ready_while_its_database_gives_no_answer(
    broker: Broker, postgres: Postgres, dsn: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The path takes what is sent, so the system finds nothing amiss."""
    monkeypatch.setattr(inbox, "GAUGES_EVERY_S", 0.05)
    monkeypatch.setattr(relay_process, "GAUGES_EVERY_S", 0.05)
    monkeypatch.setattr("router.mailbox.database_watch.ANSWER_S", 0.3)
    await rows(dsn, EFFECTS)
    await create_events(broker)
    async with an_outbox_stream(broker), contextlib.AsyncExitStack() as paths:
        path = await paths.enter_async_context(a_path_to(postgres))
        through = psycopg.conninfo.make_conninfo(dsn, port=path.port)
        service = (
            InboxService(settings_of(broker, through), record)
            if kind == "inbox"
            else RelayService(settings_of(broker, through))
        )
        ready = asyncio.Event()
        # The paths end first: the service's end would wait for an answer, too.
        async with at_work(service.run(lambda _: ready.set()), ready), paths.pop_all():
            await until(lambda: service.readiness()["database"].ok)
            path.is_cut.set()
            await until(lambda: not service.readiness()["database"].ok)
            assert "no answer" in service.readiness()["database"].detail
