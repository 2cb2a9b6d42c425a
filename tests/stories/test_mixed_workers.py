"""Workers on the subject, beside the stream, did assignments: the first worker on the stream does
not do them again.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.config import Settings
from router.contracts.assignment import assignment_id_of
from router.core.errors import BrokerRefused, Misconfigured
from router.delivery.wire.topology import Topology, create
from router.sdk import Worker
from router.sdk.start_point import StartPoint
from router.sdk.worker import worker_durable
from router.work.commands.workers import make_places
from tests.support.router_streams import a_result, publish_result, read_usage, results_are_settled
from tests.support.sdk import (
    ACK_WAIT_S,
    WorkerStreams,
    a_body,
    a_step,
    run_workers,
    some_worker_streams,
)
from tests.support.service import a_router
from tests.support.stories import a_request, ask
from tests.support.waiting import until


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkerStreams]:
    """Four assignments that waited: one has a result by its id, one by its request's, one was never
    done, other results are of others.
    """
    async with some_worker_streams(nats_url, prefix) as place:
        await place.push(a_body("a-1"), a_body(BY_REQUEST, request_id="r-2"), a_body("a-3"))
        await _report(place, assignment_id="a-1", status="error")
        await _report(place, request_id="r-2", tenant_id="acme")
        await _report(place, assignment_id="a-of-another")
        await _report(place, assignment_id="a-3", tenant_id="another")
        await place.connection.jetstream(timeout=60).publish(
            place.topology.results, b"\xff no result"
        )
        yield place


BY_REQUEST = assignment_id_of("acme", "r-2")


async def _report(place: WorkerStreams, **fields: object) -> None:
    body = {"status": "success", "latency_ms": 1, "cost": 0.5, **fields}
    await place.connection.jetstream(timeout=60).publish(
        place.topology.results, json.dumps(body).encode()
    )


async def _done_by(
    place: WorkerStreams, *, durable: str = "caf-worker", **settings: Any
) -> list[str]:
    """What a worker's handler is given of what waits, and of one that comes when it is there."""
    done: list[str] = []
    worker = place.worker(
        lambda assignment: done.append(assignment.assignment_id) or a_step(), **settings
    )  # type: ignore[func-returns-value]
    async with run_workers(worker):
        await place.push(a_body("a-4"))
        await place.settled()
    return sorted(done)


async def test_what_has_a_result_is_not_done_again(place: WorkerStreams) -> None:
    assert await _done_by(place) == ["a-3", "a-4"]


async def test_what_both_kinds_of_worker_did_is_metered_once(
    nc: Client, settings: Settings, nats_url: str
) -> None:
    """Three requests are done by a worker on the subject; the one that comes next is the first that
    the worker on the stream does.
    """
    subject = settings.assignment.subjects[0]
    done: list[str] = []

    async def report(message: Msg) -> None:
        assignment = json.loads(message.data)
        ids = {name: assignment[name] for name in ("assignment_id", "request_id", "tenant_id")}
        await publish_result(nc, settings, a_result("on the subject", **ids))

    worker = Worker(
        nats_url,
        lambda assignment: done.append(assignment.request_id) or a_step(),  # type: ignore[func-returns-value]
        worker_id="w-1",
        subject=subject,
        topology=make_places(settings),
    )
    async with a_router(settings):
        on_the_subject = await nc.subscribe(subject, cb=report)
        for number in range(3):
            assert (await ask(nc, settings, a_request(number, push_assignment=True)))["ok"]
        await until(lambda: _is_metered(nc, settings, 3))
        await on_the_subject.unsubscribe()
        async with run_workers(worker):
            assert (await ask(nc, settings, a_request("next", push_assignment=True)))["ok"]
            await until(lambda: _is_metered(nc, settings, 4))
            await until(lambda: results_are_settled(nc, settings))
        metered = await read_usage(nc, settings)
    assert done == ["r-next"]
    assert sorted(event["request_id"] for event in metered) == ["r-0", "r-1", "r-2", "r-next"]


async def _is_metered(nc: Client, settings: Settings, count: int) -> bool:
    return len(await read_usage(nc, settings)) >= count


async def test_results_that_the_server_refuses_to_show_are_read_again_and_no_assignment_is_given_up(
    place: WorkerStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, refusals = StartPoint._read, [BrokerRefused(10116, "batch deliver subject rejected")] * 2

    async def refused_first(start_point: StartPoint) -> set[str]:
        if refusals:
            raise refusals.pop()
        return await read(start_point)

    monkeypatch.setattr(StartPoint, "_read", refused_first)
    assert await _done_by(place, max_attempts=1) == ["a-3", "a-4"]
    assert await place.stored(place.topology.letters) == []


async def test_only_what_comes_from_now_on(place: WorkerStreams) -> None:
    assert await _done_by(place, start="new") == ["a-4"]


async def test_all_of_it(place: WorkerStreams) -> None:
    assert await _done_by(place, start="all") == sorted(["a-1", BY_REQUEST, "a-3", "a-4"])


async def test_the_worker_after_a_crash_goes_by_the_same_note(place: WorkerStreams) -> None:
    """The one that made the durable did nothing; what it noted stands in the durable."""
    note = await StartPoint(
        place.jetstream, place.topology.stream, place.topology.results, "unanswered"
    ).note()
    spec = worker_durable(place.topology.stream, subject=place.subject, ack_wait_s=ACK_WAIT_S)
    assert await create(place.jetstream, Topology((), (replace(spec, metadata=note),))) == []
    assert await _done_by(place, start="all") == ["a-3", "a-4"]


async def test_a_durable_that_an_operator_made_gives_all_of_its_work(place: WorkerStreams) -> None:
    await create(
        place.jetstream,
        Topology(
            (),
            (worker_durable(place.topology.stream, subject=place.subject, ack_wait_s=ACK_WAIT_S),),
        ),
    )
    assert await _done_by(place) == sorted(["a-1", BY_REQUEST, "a-3", "a-4"])


def test_a_start_that_is_none_is_refused() -> None:
    with pytest.raises(Misconfigured, match="unanswered, new, all"):
        Worker("nats://nowhere", print, worker_id="w", start="later")  # type: ignore[arg-type]
