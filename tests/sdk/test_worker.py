"""The worker, on a real server: what is said of an assignment, and what becomes of it when
something goes wrong.
"""

import asyncio
import json
import signal
import threading
import time

import pytest

from router import ExecAssignment, StepResult
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.result import ExecResult, read_result
from router.core.errors import BrokerUnavailable, Misconfigured, Poison, Transient
from router.delivery.wire.topology import ConsumerSpec, Topology, create
from router.sdk import Worker
from tests.support.requests import a_message
from tests.support.sdk import (
    WorkerStreams,
    a_body,
    a_step,
    run_workers,
    with_options,
)
from tests.support.waiting import until


async def answer(assignment: ExecAssignment) -> StepResult:
    return a_step()


# -- what is said ----------------------------------------------------------------------------------


async def test_an_assignment_is_acknowledged_and_its_result_is_stored(place: WorkerStreams) -> None:
    async with run_workers(place.worker(answer)):
        await place.push(a_body("a-1", run_id="run-1", flow_id="f-1", step_id="s-1"))
        (result,) = await place.results()
        await place.settled()
    (ack,) = place.acks
    assert (ack["assignment_id"], ack["status"], ack["request_id"], ack["tenant_id"]) == (
        "a-1",
        "accepted",
        "r-a-1",
        "acme",
    )
    said = {name: result.pop(name) for name in ("latency_ms", "timestamp")}
    assert all(isinstance(value, int) for value in said.values())
    assert result == {
        "version": "1",
        "assignment_id": "a-1",
        "request_id": "r-a-1",
        "provider_id": "openai",
        "job": {"type": "chat"},
        "tenant_id": "acme",
        "trace_id": "t-a-1",
        "run_id": "run-1",
        "flow_id": "f-1",
        "step_id": "s-1",
        "status": "success",
        "cost": 0.5,
        "metadata": {"worker_id": "w-1", "attempts": 1},
        "payload": {"text": "hi"},
    }


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_a_router_reads_the_result_in_either_encoding(
    place: WorkerStreams, encoding: str
) -> None:
    async with run_workers(place.worker(answer, encoding=encoding)):
        await place.push(a_body("a-1"))
        await until(lambda: place.stored(place.topology.results))
    (stored,) = await place.stored(place.topology.results)
    reading = read_result(a_message(stored.data, stored.headers, stored_ns=time.time_ns()))
    assert reading.violations == ()
    assert isinstance(reading.found, ExecResult)
    found = reading.found
    assert (found.assignment_id, found.status, found.cost, found.job_type, found.tenant_id) == (
        "a-1",
        "success",
        0.5,
        "chat",
        "acme",
    )
    assert found.msg_id == "result:a-1"


@pytest.mark.parametrize(
    ("step", "status", "code"),
    [
        (a_step(), "success", None),
        (a_step(status="error", error_code=2042, error_message="no"), "error", "2042"),
        (a_step(status="timeout"), "timeout", None),
        (a_step(status="cancelled", error_code="5007"), "cancelled", "5007"),
    ],
)
async def test_a_step_becomes_a_result_by_the_table(
    place: WorkerStreams, step: StepResult, status: str, code: str | None
) -> None:
    async with run_workers(place.worker(lambda _: step)):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result.get("error_code")) == (status, code)


@pytest.mark.parametrize("wrong", [{"status": "done"}, {"cost": -1}, {"cost": float("nan")}])
def test_a_step_that_is_none_is_refused_where_it_is_made(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="should be"):
        StepResult(**wrong)  # type: ignore[arg-type]


async def test_plain_functions_answer_too_side_by_side_and_hold_no_other_up(
    place: WorkerStreams,
) -> None:
    both = threading.Barrier(2, timeout=60)

    def meets(assignment: ExecAssignment) -> StepResult:
        both.wait()
        return a_step()

    async with run_workers(place.worker(meets)):
        await place.push(a_body("a-1", **with_options(deadline_ms=60_000)))
        await until(lambda: [beat for beat in place.beats if beat["status"] == "busy"])
        await place.push(a_body("a-2"))
        results = await place.results(2)
    assert {result["status"] for result in results} == {"success"}


async def test_a_base64_payload_comes_to_the_handler_as_bytes(place: WorkerStreams) -> None:
    seen = []
    async with run_workers(
        place.worker(
            lambda assignment: seen.append(assignment.payload) or a_step(output=b"\xff\x00")
        )
    ):
        await place.push(
            a_body(job={"type": "chat", "payload": "/wA=", "payload_encoding": "base64"})
        )
        (result,) = await place.results()
    assert seen == [b"\xff\x00"]
    assert (result["payload"], result["payload_encoding"]) == ("/wA=", "base64")


async def test_a_handler_that_answers_at_once_begins_in_the_task_that_it_goes_on_in(
    place: WorkerStreams,
) -> None:
    """A timeout of its own needs a task, before and after it waits."""
    tasks: list[bool] = []

    async def times_out(assignment: ExecAssignment) -> StepResult:
        before = asyncio.current_task()
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(5 if assignment.assignment_id == "a-1" else 0)
        except TimeoutError:
            tasks.append(before is not None and before is asyncio.current_task())
            return a_step(status="timeout")
        tasks.append(before is not None and before is asyncio.current_task())
        return a_step()

    async with run_workers(place.worker(times_out)):
        await place.push(a_body("a-1"))
        (result,) = await place.results()
        await place.push(a_body("a-2"))
        await place.results(2)
    assert (result["status"], tasks) == ("timeout", [True, True])


async def test_no_more_handlers_wait_at_once_than_there_are_slots(place: WorkerStreams) -> None:
    at_work: list[int] = []
    running, all_taken, go_on = 0, asyncio.Event(), asyncio.Event()

    async def waits(assignment: ExecAssignment) -> StepResult:
        nonlocal running
        running += 1
        at_work.append(running)
        if running == 3:
            all_taken.set()
        await go_on.wait()
        running -= 1
        return a_step()

    await place.push(*(a_body(f"a-{number}") for number in range(12)))
    async with run_workers(place.worker(waits, slots=3)):
        await all_taken.wait()
        info = await place.jetstream.consumer(place.topology.stream, "caf-worker")
        assert info is not None
        assert info["num_ack_pending"] == 3  # nothing is pulled ahead for handlers that wait
        go_on.set()
        await place.results(12)
        await place.settled()
    assert max(at_work) == 3
    assert len(await place.stored(place.topology.results)) == 12


# -- errors ----------------------------------------------------------------------------------------


async def test_an_error_of_the_handler_is_an_error_result(place: WorkerStreams) -> None:
    async def broken(assignment: ExecAssignment) -> StepResult:
        raise KeyError("model")

    async with run_workers(place.worker(broken)):
        await place.push(a_body())
        (result,) = await place.results()
        await place.settled()
    assert (result["status"], result["error_code"], result["error_message"]) == (
        "error",
        "2001",
        "'model'",
    )
    assert result["metadata"]["attempts"] == 1


async def test_what_is_retriable_is_tried_as_often_as_the_assignment_allows(
    place: WorkerStreams,
) -> None:
    tries: list[str] = []

    async def flaky(assignment: ExecAssignment) -> StepResult:
        tries.append(assignment.assignment_id)
        if len(tries) == 1:
            raise Transient("busy")
        return a_step() if len(tries) == 3 else a_step(status="error", is_retriable=True)

    async with run_workers(place.worker(flaky)):
        await place.push(a_body(**with_options(attempts=3)))
        (result,) = await place.results()
    assert (result["status"], result["metadata"]["attempts"]) == ("success", 3)
    assert result["cost"] == 1.0  # of the attempt that failed with a cost, and of the last


async def test_the_last_attempt_s_error_is_the_result(place: WorkerStreams) -> None:
    async def flaky(assignment: ExecAssignment) -> StepResult:
        raise Transient("busy")

    async with run_workers(place.worker(flaky)):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result["error_message"], result["metadata"]["attempts"]) == (
        "error",
        "busy",
        2,
    )


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_past_its_deadline_an_assignment_is_a_timeout(
    place: WorkerStreams, kind: str
) -> None:
    async def waits(assignment: ExecAssignment) -> StepResult:
        await asyncio.sleep(30)
        return a_step()

    def sleeps(assignment: ExecAssignment) -> StepResult:
        time.sleep(0.3)
        return a_step()

    async with run_workers(place.worker(waits if kind == "async" else sleeps)):
        await place.push(a_body(**with_options(deadline_ms=50)))
        (result,) = await place.results()
    assert (result["status"], result["error_code"]) == ("timeout", "4001")
    assert 50 <= result["latency_ms"] < 5000


async def test_what_the_handler_calls_hopeless_is_a_dead_letter_and_no_result(
    place: WorkerStreams,
) -> None:
    async def hopeless(assignment: ExecAssignment) -> StepResult:
        raise Poison("this model was retired")

    async with run_workers(place.worker(hopeless)):
        await place.push(a_body())
        (letter,) = await place.letters()
        await place.settled()
    assert (letter["assignment_id"], letter["status"], letter["error_code"]) == (
        "a-1",
        "error",
        "3001",
    )
    assert letter["error_message"] == "this model was retired"
    assert await place.stored(place.topology.results) == []


@pytest.mark.parametrize("data", [b"\xff\xfe", b"{}", b'{"assignment_id": 7}'])
async def test_an_assignment_that_cannot_be_read_is_reported_and_the_next_one_is_done(
    place: WorkerStreams, data: bytes
) -> None:
    async with run_workers(place.worker(answer)):
        await place.push(data, a_body("a-2"))
        (report,), (result,) = await place.unread(), await place.results()
    assert (report["reason"], report["payload_ref"]) == (
        "1001",
        {"subject": place.subject, "len": len(data)},
    )
    assert report["message"].startswith("not an assignment")
    assert result["assignment_id"] == "a-2"


@pytest.mark.parametrize("output", [object(), {1: "one"}, "x" * (9 * 1024 * 1024)])
async def test_an_output_that_cannot_be_sent_is_an_error_result(
    place: WorkerStreams, output: object
) -> None:
    async with run_workers(place.worker(lambda _: a_step(output=output))):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result["error_code"], result["cost"]) == ("error", "2002", 0.5)
    assert "payload" not in result


async def test_who_does_not_accept_leaves_it_to_another_worker(place: WorkerStreams) -> None:
    picky = place.worker(
        answer, "picky", accepts=lambda assignment: f"no {assignment.job_type} here"
    )
    async with run_workers(picky):
        await place.push(a_body())
        await until(lambda: place.acks)
    async with run_workers(place.worker(answer, "willing")):
        (result,) = await place.results()
    assert place.acks[0]["status"] == "rejected"
    assert place.acks[0]["message"] == "no chat here"
    assert result["metadata"]["worker_id"] == "willing"


# -- one result, whichever process dies ------------------------------------------------------------


async def test_a_worker_killed_at_work_hands_its_assignment_to_another_and_there_is_one_result(
    place: WorkerStreams,
) -> None:
    mortal = place.start_process("--latency-ms", "60000")
    try:
        assert mortal.stdout is not None
        assert (
            json.loads(await asyncio.to_thread(mortal.stdout.readline))["event"] == "worker.ready"
        )
        await place.push(a_body(**with_options(deadline_ms=60_000)))
        await until(lambda: place.acks)
        mortal.send_signal(signal.SIGKILL)
        async with run_workers(place.worker(answer, "heir", ack_wait_s=1.0)):
            (result,) = await place.results()
            await place.settled()
    finally:
        mortal.kill()
        mortal.communicate()
    assert (result["status"], result["metadata"]["worker_id"]) == ("success", "heir")
    assert len(await place.stored(place.topology.results)) == 1


async def test_an_assignment_that_comes_twice_has_one_result(place: WorkerStreams) -> None:
    done: list[str] = []
    async with run_workers(
        place.worker(answer, on_done=lambda assignment, *_: done.append(assignment.assignment_id))
    ):
        # no message ids: stored twice
        await place.push(json.dumps(a_body()).encode(), json.dumps(a_body()).encode())
        await until(lambda: len(done) == 2)
        await place.settled()
    assert len(await place.stored(place.topology.results)) == 1


async def test_told_to_stop_it_finishes_what_is_in_hand(place: WorkerStreams) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waits(assignment: ExecAssignment) -> StepResult:
        begun.set()
        await go_on.wait()
        return a_step()

    task = asyncio.create_task(place.worker(waits).run())
    await place.push(a_body())
    await begun.wait()
    task.cancel()
    await until(lambda: place.beats and place.beats[-1]["status"] == "draining")
    go_on.set()
    await asyncio.wait({task})
    assert len(await place.results()) == 1
    await place.settled()


async def test_cut_off_by_the_drain_s_deadline_an_assignment_goes_to_another_worker(
    place: WorkerStreams,
) -> None:
    begun = asyncio.Event()

    async def hangs(assignment: ExecAssignment) -> StepResult:
        begun.set()
        await asyncio.Event().wait()
        return a_step()

    async with run_workers(place.worker(hangs, "slow", drain_s=0.05)):
        await place.push(a_body())
        await begun.wait()
    async with run_workers(place.worker(answer, "quick")):
        (result,) = await place.results()
    assert (result["status"], result["metadata"]["worker_id"]) == ("success", "quick")


async def test_its_stream_may_come_after_the_worker(place: WorkerStreams) -> None:
    stream = place.topology.stream
    await place.jetstream.ask(f"STREAM.DELETE.{stream}")
    asked: list[str] = []
    await place.connection.subscribe_direct(
        f"$JS.API.STREAM.INFO.{stream}", lambda subject, *_: asked.append(subject)
    )
    await place.connection.flush()
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(place.worker(answer).run())
        await until(lambda: asked)
        await place.jetstream.ask(
            f"STREAM.CREATE.{stream}", {"name": stream, "subjects": [place.subject]}
        )
        await place.push(a_body())
        assert len(await place.results()) == 1
        working.cancel()


async def test_it_is_ready_before_it_takes_what_waits_there(place: WorkerStreams) -> None:
    heard: list[str] = []
    for durable_is_new in (True, False):
        await place.push(a_body(f"a-{durable_is_new}"))
        worker = place.worker(answer, on_done=lambda *_: heard.append("done"))
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(worker.run(lambda _: heard.append("ready")))
            await place.settled()
            working.cancel()
    assert heard == ["ready", "done"] * 2


async def test_a_durable_that_is_there_is_used_as_it_is(place: WorkerStreams) -> None:
    spec = ConsumerSpec(
        stream=place.topology.stream,
        durable="caf-worker",
        filter_subject=place.subject,
        ack_wait=7.0,
    )
    await create(place.jetstream, Topology((), (spec,)))
    async with run_workers(place.worker(answer)):
        await place.push(a_body())
        assert len(await place.results()) == 1
    info = await place.jetstream.consumer(place.topology.stream, "caf-worker")
    assert info is not None
    assert info["config"]["ack_wait"] == 7_000_000_000


# -- heartbeats ------------------------------------------------------------------------------------


async def test_heartbeats_tell_idle_busy_and_stopped(place: WorkerStreams) -> None:
    go_on = asyncio.Event()

    async def waits(assignment: ExecAssignment) -> StepResult:
        await go_on.wait()
        return a_step()

    async with run_workers(place.worker(waits, slots=4)):
        await until(lambda: place.beats)
        await place.push(a_body())
        await until(lambda: place.beats[-1]["status"] == "busy")
        busy = place.beats[-1]
        go_on.set()
        await until(lambda: place.beats[-1]["status"] == "idle")
    await until(lambda: place.beats[-1]["status"] == "stopped")
    assert (busy["worker_id"], busy["load"], busy["capacity"], busy["interval_ms"]) == (
        "w-1",
        0.25,
        4,
        50,
    )
    assert [beat["status"] for beat in place.beats[-2:]] == ["draining", "stopped"]


# -- its making ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ({"worker_id": "a b"}, "worker_id"),
        ({"durable": "a.b"}, "durable"),
        ({"slots": 0}, "slots"),
        ({"encoding": "xml"}, "encoding"),
    ],
)
def test_a_worker_that_cannot_work_is_not_made(wrong: dict[str, object], setting: str) -> None:
    with pytest.raises(Misconfigured, match=setting):
        Worker("nats://nowhere", answer, **{"worker_id": "w", **wrong})  # type: ignore[arg-type]


async def test_no_server_is_told_at_the_start() -> None:
    with pytest.raises(BrokerUnavailable):
        await Worker("nats://127.0.0.1:1", answer, worker_id="w").run()


def test_what_an_assignment_leaves_out_has_its_usual_value() -> None:
    least = {
        name: value
        for name, value in a_body().items()
        if name not in ("options", "metadata", "trace_id", "decision", "correlation")
    }
    read = read_exec_assignment(json.dumps(least | {"options": None}).encode())
    assert (read.deadline_ms, read.max_attempts, read.backoff_ms, read.trace_id, read.metadata) == (
        60_000,
        2,
        200,
        None,
        {},
    )
