"""Results of a worker that go in atomic batches, on a real server: stored once, found again, and one
by one where the stream takes none.
"""

import json

import pytest

from router import ExecAssignment, StepResult
from router.delivery.wire.api import StoredMessage
from router.delivery.wire.frames import Headers
from tests.support.publish_costs import write_in_batches
from tests.support.sdk import WorkerStreams, a_body, a_step, run_workers

COUNT = 150


@pytest.fixture(autouse=True)
def _in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    write_in_batches(monkeypatch)


async def answer(assignment: ExecAssignment) -> StepResult:
    return a_step()


async def push_all(place: WorkerStreams) -> None:
    await place.push(*(a_body(f"a-{number}") for number in range(COUNT)))


async def read_all(place: WorkerStreams) -> list[StoredMessage]:
    """The results, once all are there; each assignment has one."""
    results = await place.results(COUNT)
    await place.settled()
    assert sorted(one["assignment_id"] for one in results) == sorted(
        f"a-{number}" for number in range(COUNT)
    )
    return await place.stored(place.topology.results)


async def hear_batched(place: WorkerStreams) -> list[str]:
    """The assignments whose results are sent in a batch, stored or not; it grows."""
    batched: list[str] = []

    def on_result(_subject: str, _reply: str, data: bytes, headers: Headers | None) -> None:
        if "Nats-Batch-Id" in (headers or {}):
            batched.append(json.loads(data)["assignment_id"])

    await place.connection.subscribe_direct(place.topology.results, on_result)
    await place.connection.flush()
    return batched


async def test_results_that_wait_go_in_batches_and_each_once(place: WorkerStreams) -> None:
    await push_all(place)
    async with run_workers(place.worker(answer)):
        stored = await read_all(place)
    assert sum("Nats-Batch-Id" in one.headers for one in stored) >= 2


async def test_a_result_that_is_stored_already_refuses_its_batch_and_not_its_neighbours(
    place: WorkerStreams,
) -> None:
    """10201: another worker stored it, and died before it acknowledged its assignment."""
    async with run_workers(place.worker(answer)):
        await place.push(a_body("a-7"))
        await place.settled()
    batched = await hear_batched(place)
    bodies = [a_body(f"a-{number}") for number in range(COUNT)]
    again = json.dumps(a_body("a-7")).encode()  # without an id: its stream takes it again
    await place.push(*bodies[: COUNT // 2], again, *bodies[COUNT // 2 :])
    async with run_workers(place.worker(answer)):
        await read_all(place)
    assert batched.count("a-7") == 1


async def test_a_stream_that_takes_no_batches_gets_its_results_one_by_one(
    place: WorkerStreams,
) -> None:
    info = await place.jetstream.stream(place.said) or {}
    config = {**info["config"], "allow_atomic": False}
    await place.jetstream.ask(f"STREAM.UPDATE.{place.said}", config)
    await push_all(place)
    async with run_workers(place.worker(answer)):
        stored = await read_all(place)
    assert not any("Nats-Batch-Id" in one.headers for one in stored)
