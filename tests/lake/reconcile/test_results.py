"""Results that were acknowledged, against usage, on a real server."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from router.contracts.usage import assignment_identity, identity_of
from router.delivery.wire.api import JetStream
from router.lake.reconcile import ReconcileCheck
from router.lake.reconcile.results import check_results, open_result_streams
from router.lake.reconcile.stream import WarehouseSnapshot
from router.lake.source.options import SourceOptions, read_options
from router.lake.warehouse import Removal, SequenceSpans, Warehouse
from tests.lake.without_jvm import IN_PROCESS
from tests.support.delivery import connected
from tests.support.lake_accounts import an_account, body, tables_of
from tests.support.made_anew import create_stream
from tests.support.patient_client import PATIENCE_S

STREAMS = ("WORKED", "USED", "DEAD")


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        for name in STREAMS:
            await create_stream(jetstream, name, {"subjects": [name.lower()]})
        consumer = {
            "stream_name": "WORKED",
            "config": {"durable_name": "meter", "ack_policy": "explicit"},
        }
        await jetstream.ask("CONSUMER.DURABLE.CREATE.WORKED.meter", consumer)
        yield jetstream
        for name in STREAMS:
            await jetstream.ask(f"STREAM.DELETE.{name}")


async def worked(
    jetstream: JetStream,
    request: int,
    *,
    is_acked: bool = True,
    status: str = "success",
    **ids: str,
) -> int:
    """One result of a worker, acknowledged by the consumer that meters."""
    named = ids or {"request_id": f"r-{request}"}
    result = {
        "version": "1",
        "status": status,
        "latency_ms": 10,
        "cost": 0.25,
        "tenant_id": "acme",
        **named,
    }
    stored = await jetstream.publish("worked", orjson.dumps(result), {})
    if is_acked:
        inbox = jetstream.connection.new_inbox()
        given = await jetstream.connection.subscribe(inbox)
        await jetstream.connection.publish(
            "$JS.API.CONSUMER.MSG.NEXT.WORKED.meter", b'{"batch":1}', reply=inbox
        )
        await jetstream.connection.request((await given.next_msg(60)).reply, b"+ACK", timeout=60)
    return int(stored["seq"])


async def checked(
    url: str, path: Path, requests: tuple[int, ...], *others: dict[str, object]
) -> ReconcileCheck:
    """With usage of these requests in the tables, and these rows of silver."""

    def options(stream: str) -> SourceOptions:
        return read_options({"url": url, "stream": stream})

    tables = tables_of([body(request) for request in requests], ["0.25"] * len(requests))
    for row in tables["silver"]:
        row["event_id"] = identity_of("acme", str(row["request_id"]), "success")
    tables["silver"] += [
        {"seq": seq, "tenant_id": "acme", "status": "success", "event_type": "chat", **row}
        for seq, row in enumerate(others, 10)
    ]
    for row in tables["silver"]:
        row["time"] = 4_000_000_000_000_000  # metered after any result
    warehouse = an_account(path, tables)
    return await asyncio.to_thread(
        lambda: check_results(
            IN_PROCESS,
            WarehouseSnapshot(warehouse, 1),
            open_result_streams(options("WORKED"), options("USED"), options("DEAD"), "meter"),
        )
    )


async def test_results_that_were_all_metered_agree(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    for request in (1, 2, 3):
        await worked(jetstream, request)
    assert (await checked(nats_url, tmp_path, (1, 2, 3))).verdict == "ok"


async def test_an_acknowledged_result_without_usage_is_named(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """UL-9."""
    for request in (1, 2, 3):
        await worked(jetstream, request)
    assert (await checked(nats_url, tmp_path, (1, 3))).ids == ("r-2 success: no usage",)


async def test_another_status_of_a_request_is_another_outcome(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 1)
    await worked(jetstream, 1, status="error")
    assert (await checked(nats_url, tmp_path, (1,))).ids == ("r-1 error: no usage",)


A_BILL = {
    "assignment_id": "a-1",
    "request_id": "r-1",
    "event_id": assignment_identity("acme", "a-1"),
}


async def test_the_bill_of_an_assignment_meters_each_of_its_results(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """By the assignment or by the request, whatever their statuses; another assignment's result is
    named.
    """
    await worked(jetstream, 1, status="timeout", assignment_id="a-1")
    await worked(jetstream, 1, status="success", request_id="r-1")
    await worked(jetstream, 2, assignment_id="a-2")
    found = await checked(nats_url, tmp_path, (), A_BILL)
    assert (found.ids, found.figures["usage"]) == (("a-2 success: no usage",), 1)


@pytest.mark.parametrize("named", [{"assignment_id": "a-1"}, {"request_id": "r-1"}])
async def test_a_bill_is_heard_of_by_either_of_its_ids(
    jetstream: JetStream, nats_url: str, tmp_path: Path, named: dict[str, str]
) -> None:
    await worked(jetstream, 1, status="error", **named)
    assert (await checked(nats_url, tmp_path, (), A_BILL)).verdict == "ok"


async def test_a_bill_without_a_result_is_named_once(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 2)
    assert (await checked(nats_url, tmp_path, (2,), A_BILL)).ids == ("a-1 success: no result",)


async def test_an_invocation_under_an_assignment_meters_its_results_and_waits_for_none(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """The worker's result is the duplicate of its own invocation; further attempts and adjustments
    are of no result.
    """
    await worked(jetstream, 1, assignment_id="a-1")
    invoked = {**A_BILL, "event_type": "provider.invoke"}
    waiting = {
        **A_BILL,
        "assignment_id": "a-3",
        "request_id": "r-3",
        "event_id": assignment_identity("acme", "a-3"),
    }
    further = {**A_BILL, "event_type": "provider.invoke.stream", "event_id": "usage:" + "f" * 32}
    corrected = {
        "event_type": "usage.adjustment",
        "adjustment": "held",
        "event_id": "usage:" + "e" * 32,
    }
    found = await checked(
        nats_url,
        tmp_path,
        (),
        invoked,
        further,
        corrected,
        waiting | {"event_type": "provider.invoke"},
    )
    assert (found.verdict, found.figures["usage"]) == ("ok", 0)


async def test_a_type_that_only_begins_as_that_of_invocations_waits_for_its_result(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """The payer chooses the type of a request: only those that no request may have say that there
    is no result.
    """
    await worked(jetstream, 2)
    chosen = A_BILL | {"event_type": "provider.invoked"}
    assert (await checked(nats_url, tmp_path, (2,), chosen)).ids == ("a-1 success: no result",)


async def test_a_further_invocation_meters_no_result(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 1, assignment_id="a-1")
    further = {**A_BILL, "event_type": "provider.invoke", "event_id": "usage:" + "f" * 32}
    assert (await checked(nats_url, tmp_path, (), further)).ids == ("a-1 success: no usage",)


async def test_a_bill_that_is_not_yet_ingested_counts_as_metered(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 1, status="timeout", assignment_id="a-1")
    await jetstream.publish("used", body(1, **A_BILL), {})
    assert (await checked(nats_url, tmp_path, ())).verdict == "ok"


async def test_a_result_that_is_not_yet_acknowledged_owes_nothing(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 1)
    await worked(jetstream, 2, is_acked=False)
    assert (await checked(nats_url, tmp_path, (1,))).verdict == "ok"


async def test_a_result_that_became_a_dead_letter_owes_nothing(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 1)
    sequence = await worked(jetstream, 2)
    await jetstream.publish(
        "dead", orjson.dumps({"source": {"stream": "WORKED", "sequence": sequence}}), {}
    )
    assert (await checked(nats_url, tmp_path, (1,))).verdict == "ok"


async def test_usage_that_is_not_yet_ingested_counts_as_metered(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    await worked(jetstream, 1)
    await worked(jetstream, 2)
    for request in (1, 2):
        await jetstream.publish("used", body(request), {})
    assert (await checked(nats_url, tmp_path, (1,))).verdict == "ok"


async def test_usage_that_was_erased_counts_as_metered_while_the_stream_has_it(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """UL-35."""
    for request in (1, 2):
        await worked(jetstream, request)
        await jetstream.publish("used", body(request), {})
    removal = Removal(id="e-1", kind="erase", at=datetime.now(UTC), sequence=2)
    Warehouse(str(tmp_path)).removals.append(removal, {None: SequenceSpans([1], [1])})
    assert (await checked(nats_url, tmp_path, (2,))).verdict == "ok"


async def test_usage_without_a_result_is_named(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    """UL-9."""
    await worked(jetstream, 1)
    found = await checked(nats_url, tmp_path, (1, 2))
    # Shown whole: this one was once seen without a name, and nothing said what was found instead.
    assert found.ids == ("r-2 success: no result",), found


async def test_without_any_result_nothing_is_said(
    jetstream: JetStream, nats_url: str, tmp_path: Path
) -> None:
    assert (await checked(nats_url, tmp_path, (1, 2))).verdict == "skipped"
