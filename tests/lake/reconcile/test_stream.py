"""The stream against bronze, on a real server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from router.core.errors import Misconfigured
from router.delivery.wire.api import JetStream
from router.lake.reconcile import ReconcileCheck, reconcile
from router.lake.reconcile.stream import open_stream
from router.lake.source.options import read_options
from router.lake.tables.gold_columns import GOLD_TABLES
from router.lake.warehouse import Removal, SequenceSpans, Warehouse
from tests.lake.without_jvm import IN_PROCESS
from tests.support.delivery import connected
from tests.support.lake_accounts import Rows, an_account, body, tables_of
from tests.support.made_anew import create_stream
from tests.support.patient_client import PATIENCE_S


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        await create_stream(jetstream, "USED", {"subjects": ["used"]})
        yield jetstream
        await jetstream.ask("STREAM.DELETE.USED")


async def eight(jetstream: JetStream) -> dict[str, Rows]:
    bodies = [body(seq) for seq in range(1, 9)]
    for data in bodies:
        await jetstream.publish("used", data, {})
    return tables_of(bodies, ["0.25"] * 8)


async def compared(
    jetstream: JetStream, url: str, path: Path, tables: dict[str, Rows]
) -> dict[str, ReconcileCheck]:
    """Beside the server's own loop: the checks run one of their own."""

    created = (await jetstream.stream("USED") or {})["created"]
    warehouse = an_account(path, tables, created)
    account = await asyncio.to_thread(
        lambda: reconcile(
            IN_PROCESS, warehouse, open_stream(read_options({"url": url, "stream": "USED"}))
        )
    )
    return {check.name: check for check in account.checks}


async def test_bronze_that_holds_the_stream_agrees(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    checks = await compared(jetstream, nats_url, tmp_path, await eight(jetstream))
    assert (checks["stream = bronze"].verdict, checks["stream = bronze"].figures["messages"]) == (
        "ok",
        8,
    )


async def test_a_message_with_other_bytes_is_named(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """UL-9."""
    tables = await eight(jetstream)
    tables["bronze"][4] = {"seq": 5, "data": body(5, trace_id="other")}
    assert list((await compared(jetstream, nats_url, tmp_path, tables))["stream = bronze"].ids) == [
        "5"
    ]


async def test_messages_that_bronze_lacks_are_named(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    tables = await eight(jetstream)
    del tables["bronze"][2:4]
    checks = await compared(jetstream, nats_url, tmp_path, tables)
    assert list(checks["stream = bronze"].ids) == ["3-4"]
    assert list(checks["sequences"].ids) == ["3-4"]


async def test_a_message_that_was_deleted_in_the_stream_is_not_missing(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """UL-9, UL-12."""
    tables = await eight(jetstream)
    await jetstream.ask("STREAM.MSG.DELETE.USED", {"seq": 3})
    for table in ("bronze", "silver", "gold_minute", "gold_hour", "gold_day"):
        del tables[table][2]
    checks = await compared(jetstream, nats_url, tmp_path, tables)
    assert all(check.is_right is not False for check in checks.values())
    assert "1 were deleted" in checks["sequences"].says


async def test_a_message_that_was_erased_is_not_missing_though_the_stream_has_it(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """UL-35."""
    tables = await eight(jetstream)
    for table in ("bronze", "silver", *GOLD_TABLES):
        del tables[table][2]
    removal = Removal(id="e-1", kind="erase", at=datetime.now(UTC), sequence=8)
    Warehouse(str(tmp_path)).removals.append(removal, {None: SequenceSpans([3], [3])})
    checks = await compared(jetstream, nats_url, tmp_path, tables)
    assert all(check.is_right is not False for check in checks.values())
    assert (
        checks["sequences"].figures["removed"],
        checks["stream = bronze"].figures["messages"],
    ) == (1, 7)


async def test_what_the_stream_no_longer_has_is_not_compared(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    tables = await eight(jetstream)
    await jetstream.ask("STREAM.PURGE.USED", {"seq": 6})
    assert (await compared(jetstream, nats_url, tmp_path, tables))["stream = bronze"].figures[
        "from"
    ] == 6


async def test_a_stream_that_was_made_anew_is_refused(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    tables = await eight(jetstream)
    warehouse = an_account(tmp_path, tables, "2020-01-01T00:00:00Z")

    with pytest.raises(Misconfigured, match="--nats-url"):
        await asyncio.to_thread(
            lambda: reconcile(
                IN_PROCESS,
                warehouse,
                open_stream(read_options({"url": nats_url, "stream": "USED"})),
            )
        )
