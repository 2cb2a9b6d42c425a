"""A worker of the SDK that a test kills: every other assignment's handler waits, the others answer
at once.
"""

import asyncio

import orjson

from router import ExecAssignment, StepResult, Worker
from router.config import load
from router.work.commands.workers import make_places
from tests.support.kills import KilledProcess

READY = "worker.ready"
ACK_WAIT_S = 0.5
ATTEMPTS = 20  # an assignment in flight at three deaths has used the default three and is given up


class KilledWorker(KilledProcess):
    """The process, by settings as a router's."""

    command = ("tests.support.killed_worker",)
    announces = READY

    def __init__(self, settings: dict[str, object]) -> None:
        super().__init__(settings, policies=None)


async def answer(assignment: ExecAssignment) -> StepResult:
    if assignment.assignment_id[-1] in "13579":
        await asyncio.sleep(0)
    return StepResult(output="done", cost=0.5)


async def main() -> None:
    settings = load().settings
    worker = Worker(
        settings.nats,
        answer,
        worker_id="killed",
        subject=settings.assignment.subjects[0],
        ack_wait_s=ACK_WAIT_S,
        max_attempts=ATTEMPTS,
        topology=make_places(settings),
    )
    await worker.run(lambda _: print(orjson.dumps({"event": READY}).decode(), flush=True))


if __name__ == "__main__":
    asyncio.run(main())
