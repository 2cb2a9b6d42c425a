"""A worker goes on, on a real server, when a user's function, a durable or an assignment is not what it should be."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from router import ExecAssignment, StepResult
from tests.support.sdk import WorkerStreams, a_body, a_step, run_workers, some_worker_streams


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkerStreams]:
    async with some_worker_streams(nats_url, prefix) as place:
        yield place


def plain(assignment: ExecAssignment) -> StepResult:
    return a_step()


# -- a worker that runs again ------------------------------------------------------------------------------------------


async def test_a_worker_may_run_again_with_a_plain_handler(place: WorkerStreams) -> None:
    worker = place.worker(plain)
    for name in ("a-1", "a-2"):
        async with run_workers(worker):
            await place.push(a_body(name))
            await place.settled()
    assert [result["status"] for result in await place.results(2)] == ["success", "success"]


# -- a user's function that fails --------------------------------------------------------------------------------------


def _raise(*_: object) -> NoReturn:
    raise BrokenPipeError("closed")


def _exit(*_: object) -> NoReturn:
    sys.exit(3)


@pytest.mark.parametrize("on_done", [_raise, _exit])
async def test_an_on_done_that_raises_leaves_the_result_as_it_is(
    place: WorkerStreams, on_done: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with run_workers(place.worker(plain, on_done=on_done)):
        await place.push(a_body("a-1"), a_body("a-2"))
        results = await place.results(2)
        await place.settled()
    assert [result["status"] for result in results] == ["success", "success"]
    assert len([record for record in caplog.records if "on_done" in str(record.__dict__)]) == 1


async def test_a_worker_whose_output_is_closed_drains_and_ends(place: WorkerStreams) -> None:
    worker = place.start_process()
    try:
        assert worker.stdout is not None
        assert json.loads(await asyncio.to_thread(worker.stdout.readline))["event"] == "worker.ready"
        worker.stdout.close()  # as `| head -1` does
        await place.push(a_body())
        status = await asyncio.to_thread(worker.wait, 30)
    finally:
        worker.kill()
        worker.wait()
    assert worker.stderr is not None
    with worker.stderr as errors:
        assert (status, errors.read()) == (141, b"")
    assert [result["status"] for result in await place.results()] == ["success"]
    assert await place.stored(place.topology.letters) == []
