"""The outbox through the failures of everything around it: T7, T8, T9, T15, T17 (SD-14,
docs/explanation/durability.md#outage).
"""

import asyncio
import random
import time
from collections.abc import Iterator
from statistics import quantiles

import pytest
from msgspec import Struct

from router.mailbox.outbox.repository import PARTITIONS, PostgresOutboxAdapter
from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.mailbox import (
    OutboxStream,
    a_relay,
    all_published,
    count_unpublished,
    fill_outbox,
    order_violations,
)
from tests.support.postgres import Postgres, rows
from tests.support.relay import AT_ONCE, Relay, a_database_and_stream, commit_rows, names_for
from tests.support.result_pages import write_page
from tests.support.waiting import until


@pytest.fixture
def mortal() -> Iterator[Postgres]:
    """A server of the test's own, to be killed."""
    with Postgres(16) as server:
        yield server


async def nothing_was_spent(dsn: str) -> bool:
    """No row was parked or waits, and none was tried twice."""
    query = (
        "SELECT (SELECT count(*) FROM outbox_relay_state), (SELECT max(publish_attempts) FROM "
        "outbox_events)"
    )
    return await rows(dsn, query) == [(0, 1)]


async def stands_once(place: OutboxStream, count: int) -> bool:
    return sorted(await place.numbers()) == list(range(1, count + 1))


# -- T7: clocks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-300, 300])
async def test_a_worker_whose_clock_is_wrong_publishes_all_the_same(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch, skew_s: int
) -> None:
    """T7: only the database's clock is asked; there is no lease that a clock could end."""
    real, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real() + skew_s)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + skew_s * 10**9)
    async with (
        a_database_and_stream(postgres) as (dsn, place, _),
        Database(DatabaseConfig(dsn)) as database,
    ):
        await fill_outbox(dsn, 100)
        async with a_relay(database, place):
            await all_published(dsn)
        late = (
            "SELECT count(*) FROM outbox_events WHERE published_at NOT BETWEEN now() - "
            "interval '1 minute' AND now()"
        )
        assert await rows(dsn, late) == [(0,)]
        assert await stands_once(place, 100)


# -- T8: PostgreSQL --------------------------------------------------------------------------------


class Resumed(Struct):
    kills: int
    rows: int
    resumed_s: list[float]


async def test_a_database_that_is_killed_loses_nothing_and_parks_nothing(mortal: Postgres) -> None:
    """T8."""
    await _database_killed(mortal, kills=2, share=300, away_s=0.2)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_database_that_is_killed_twenty_times_loses_nothing(mortal: Postgres) -> None:
    """T8: down for up to 3 s each; how long until rows leave again."""
    found = await _database_killed(mortal, kills=20, share=500, away_s=3.0)
    cuts = quantiles(found.resumed_s, n=100)
    head = (
        "| kills | rows | lost | double | parked | resumed after, p50 s | p99 s |\n"
        + "| ---: " * 7
        + "|\n"
    )
    line = f"| {found.kills} | {found.rows} | 0 | 0 | 0 | {cuts[49]:.2f} | {cuts[98]:.2f} |\n"
    note = (
        "Killed by SIGQUIT at any moment of a round, down for 0 to 3 s; from when it accepts "
        "connections to the next row marked."
    )
    write_page("relay_database_killed", "PostgreSQL killed under the relay", head + line, note)


async def _database_killed(mortal: Postgres, *, kills: int, share: int, away_s: float) -> Resumed:
    resumed = []
    async with (
        a_database_and_stream(mortal) as (dsn, place, _),
        Database(DatabaseConfig(dsn, timeout=2.0)) as database,
    ):
        async with a_relay(database, place, round=50, page=50) as relay:
            for _ in range(kills):
                await commit_rows(dsn, share)
                await asyncio.sleep(random.uniform(0, 0.05))  # any moment of a round
                await asyncio.to_thread(mortal.kill)
                await asyncio.sleep(random.uniform(0, away_s))
                await asyncio.to_thread(mortal.start)
                since, before = time.monotonic(), relay.totals.published
                await commit_rows(dsn, AT_ONCE)
                await until(lambda before=before: relay.totals.published > before, within_s=20)  # type: ignore[misc]
                resumed.append(time.monotonic() - since)
            await all_published(dsn)
        count = kills * (share + AT_ONCE)
        assert await stands_once(place, count)
        assert await rows(dsn, "SELECT count(*) FROM outbox_relay_state") == [(0,)]
        return Resumed(kills, count, resumed)


# -- T9: NATS --------------------------------------------------------------------------------------


async def test_a_broker_that_is_away_for_seconds_costs_no_row_an_attempt(
    postgres: Postgres,
) -> None:
    """T9."""
    await _broker_away(postgres, away_s=1.0, count=500)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_a_broker_that_is_away_for_ten_minutes_costs_no_row_an_attempt(
    postgres: Postgres,
) -> None:
    """T9: 5 s, 90 s, 10 min; the rate of recovery."""
    head = (
        (
            "| away s | rows waiting | parked | attempts, most | in the stream | double | "
            "recovered rows/s |\n"
        )
        + "| ---: " * 7
        + "|\n"
    )
    lines = ""
    for away_s in (5.0, 90.0, 600.0):
        rate = await _broker_away(postgres, away_s=away_s, count=5000)
        lines += f"| {away_s:.0f} | 5000 | 0 | 1 | 5000 | 0 | {rate:,.0f} |\n"
    write_page(
        "relay_broker_away",
        "The broker away under the relay",
        head + lines,
        "From the broker's return to the last row marked.",
    )


async def _broker_away(postgres: Postgres, *, away_s: float, count: int) -> float:
    """Rows a second once it is back."""
    async with (
        a_database_and_stream(postgres) as (dsn, place, broker),
        Database(DatabaseConfig(dsn)) as database,
    ):
        async with a_relay(database, place) as relay:
            await fill_outbox(dsn, AT_ONCE)
            await all_published(dsn)
            broker.kill()
            await fill_outbox(dsn, count - AT_ONCE)
            await until(lambda: relay.trouble is not None, within_s=60)
            await asyncio.sleep(away_s)
            broker.start()
            since = time.monotonic()
            await all_published(dsn, within_s=60)
            rate = (count - AT_ONCE) / (time.monotonic() - since)
        assert await nothing_was_spent(dsn)
        assert await stands_once(place, count)
        return rate


async def test_a_broker_that_hangs_costs_no_row_an_attempt(postgres: Postgres) -> None:
    """Connected, and silent: what it gets twice it stores once."""
    async with (
        a_database_and_stream(postgres) as (dsn, place, broker),
        Database(DatabaseConfig(dsn)) as database,
    ):
        async with a_relay(database, place, store_timeout_s=0.3) as relay:
            broker.pause()
            await fill_outbox(dsn, 200)
            await until(lambda: relay.trouble is not None)
            broker.unpause()
            await all_published(dsn)
        assert await nothing_was_spent(dsn)
        assert await stands_once(place, 200)


# -- T15: two relays -------------------------------------------------------------------------------


@pytest.mark.slow  # two processes
async def test_the_relay_that_stands_by_takes_over_from_one_that_is_killed(
    postgres: Postgres,
) -> None:
    """T15: at most 15 s without a row, nothing twice, nothing out of order."""
    async with a_database_and_stream(postgres) as (dsn, place, broker):
        names = names_for(broker.url, dsn)
        relays = [Relay(names, None), Relay(names, None)]
        try:
            for relay in relays:
                await asyncio.to_thread(relay.start)
            await commit_rows(dsn, 500)
            relays[0].kill()
            since = time.monotonic()
            await commit_rows(dsn, 500)
            await all_published(dsn, within_s=15)
            print(f"taken over and done after {time.monotonic() - since:.2f} s")
        finally:
            for relay in relays:
                relay.remove()
        assert await stands_once(place, 1000)
        assert order_violations(await place.events()) == 0


@pytest.mark.slow  # a process that hangs for as long as the server lets it
async def test_a_relay_that_hangs_in_a_round_loses_it_to_the_one_that_stands_by(
    postgres: Postgres,
) -> None:
    """Its transaction is ended by the server, so what it does when it wakes up marks nothing."""
    async with a_database_and_stream(postgres) as (dsn, place, _):
        quick, slow = DatabaseConfig(dsn), DatabaseConfig(dsn, idle_in_transaction=3.0)
        async with Database(slow) as hanging, Database(quick) as standing_by:
            await fill_outbox(dsn, 100)
            async with hanging.transaction() as session:
                outbox = PostgresOutboxAdapter(session)
                assert (await outbox.claim_partitions(), len(await outbox.find_unpublished())) == (
                    PARTITIONS,
                    100,
                )
                async with a_relay(standing_by, place):
                    await until(lambda: _is_ended(dsn))
                    await all_published(dsn)
                with pytest.raises(Exception, match="away"):
                    await session.execute("UPDATE outbox_events SET published_at = NULL")
        assert await count_unpublished(dsn) == 0


async def _is_ended(dsn: str) -> bool:
    found = await rows(
        dsn,
        (
            "SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = "
            "current_database()"
        ),
    )
    return not found


# -- T17: drains -----------------------------------------------------------------------------------


@pytest.mark.slow  # a process
async def test_a_relay_that_is_told_to_go_finishes_what_it_holds(postgres: Postgres) -> None:
    """T17: two drains; nothing is published a second time."""
    await _drained(postgres, drains=2, share=300)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_fifty_drains_under_load_publish_nothing_twice(postgres: Postgres) -> None:
    """T17."""
    slowest = await _drained(postgres, drains=50, share=300)
    head = "| drains | rows | lost | published twice | slowest exit s |\n" + "| ---: " * 5 + "|\n"
    write_page(
        "relay_drains",
        "SIGTERM under load",
        f"{head}| 50 | {50 * 300} | 0 | 0 | {slowest:.2f} |\n",
        "Every exit status is 0.",
    )


async def _drained(postgres: Postgres, *, drains: int, share: int) -> float:
    """The slowest exit, seconds."""
    slowest = 0.0
    async with a_database_and_stream(postgres) as (dsn, place, broker):
        relay = Relay(names_for(broker.url, dsn), None)
        try:
            for _ in range(drains):
                await asyncio.to_thread(relay.start)
                feeding = asyncio.create_task(commit_rows(dsn, share))
                await asyncio.sleep(random.uniform(0, 0.05))
                since = time.monotonic()
                assert await asyncio.to_thread(relay.terminate) == 0
                slowest = max(slowest, time.monotonic() - since)
                await feeding
            await asyncio.to_thread(relay.start)
            await all_published(dsn)
        finally:
            relay.remove()
        assert await nothing_was_spent(dsn)
        assert await stands_once(place, drains * share)
    return slowest


# -- T10: the broker killed ------------------------------------------------------------------------


@pytest.mark.slow  # several deaths and restarts of a server
@pytest.mark.parametrize("sync_always", [False, True], ids=["default", "always"])
async def test_a_broker_that_is_killed_under_load_loses_nothing_that_it_acknowledged(
    postgres: Postgres, sync_always: bool
) -> None:
    """T10: a process that dies takes nothing with it that it wrote, whichever way it syncs."""
    await _broker_killed(postgres, kills=2, sync_always=sync_always)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_broker_that_is_killed_twenty_times_under_load_loses_nothing(
    postgres: Postgres,
) -> None:
    """T10."""
    head = (
        "| sync_interval | kills | rows | acked and lost | double | parked |\n| --- "
        + "| ---: " * 5
        + "|\n"
    )
    for sync_always in (False, True):
        count, taken_back = await _broker_killed(postgres, kills=20, sync_always=sync_always)
        head += (
            f"| {'always' if sync_always else 'default'} | 20 | {count} | {taken_back} | 0 | 0 |\n"
        )
    note = "SIGKILL at any moment, started again at once on its store."
    write_page("relay_broker_killed", "The broker killed under the relay", head, note)


async def _broker_killed(postgres: Postgres, *, kills: int, sync_always: bool) -> tuple[int, int]:
    """Rows, and how many of them the broker had acknowledged and lost."""
    async with (
        a_database_and_stream(postgres, sync_always=sync_always) as (dsn, place, broker),
        Database(DatabaseConfig(dsn)) as database,
    ):
        async with a_relay(database, place, round=50, page=50) as relay:
            for _ in range(kills):
                feeding = asyncio.create_task(commit_rows(dsn, 200))
                await asyncio.sleep(random.uniform(0, 0.1))
                broker.kill()
                broker.start()
                await feeding
            await all_published(dsn, within_s=30)
        assert await rows(dsn, "SELECT count(*) FROM outbox_relay_state") == [(0,)]
        assert await stands_once(place, kills * 200)
        return kills * 200, relay.totals.lost
