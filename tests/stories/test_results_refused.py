"""The stream of results refuses: what a worker has done stays with it until it can be stored, for
doing it again may cost money.
"""

from collections import Counter

import pytest

from router.sdk import ExecAssignment, StepResult, worker
from tests.support.observability import capture_log
from tests.support.refusals import Spoil, fill, mend, seal, take_subject_off
from tests.support.sdk import a_body, run_workers, some_worker_streams
from tests.support.waiting import until

ASSIGNMENTS = 24  # more than a worker begins at once


@pytest.mark.parametrize("spoil", [seal, take_subject_off, fill])
async def test_no_assignment_is_done_twice_while_its_result_is_refused(
    nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch, spoil: Spoil
) -> None:
    monkeypatch.setattr(worker, "_FULL_RETRY_S", 0.05)  # what is sent back comes again at once
    done: Counter[str] = Counter()

    def handle(assignment: ExecAssignment) -> StepResult:
        done[assignment.assignment_id] += 1
        return StepResult(output="done", cost=0.5)

    async with (
        some_worker_streams(nats_url, prefix) as place,
        run_workers(place.worker(handle, slots=4)),
    ):
        said = await place.jetstream.stream(place.said)
        assert said is not None
        with capture_log() as lines:
            await spoil(place.jetstream, place.said)
            await place.push(*(a_body(f"a-{number}") for number in range(ASSIGNMENTS)))
            await until(
                lambda: any(line["event"] == "consumer.paused" for line in lines.all()),
                what="the worker pauses",
            )
            await mend(place.jetstream, said["config"])
            assert len(await place.results(ASSIGNMENTS)) == ASSIGNMENTS
    assert set(done.values()) == {1}
