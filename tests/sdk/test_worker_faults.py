"""A worker goes on, on a real server, when a user's function, a durable or an assignment is not what it should be."""

from collections.abc import AsyncIterator

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
