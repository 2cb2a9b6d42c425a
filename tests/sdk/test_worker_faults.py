"""A worker goes on, on a real server, when a user's function, a durable or an assignment is not
what it should be.
"""

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import pytest

from router import ExecAssignment, StepResult
from router.core.errors import BrokerRefused, Misconfigured, Poison, Transient
from router.delivery.consume.subscription import IN_PROGRESS
from router.delivery.wire.topology import ConsumerSpec, Topology, create
from tests.support.observability import LogLines
from tests.support.sdk import (
    WorkerStreams,
    a_body,
    a_step,
    run_workers,
    with_options,
)
from tests.support.waiting import until


def plain(assignment: ExecAssignment) -> StepResult:
    return a_step()


# -- a worker that runs again ----------------------------------------------------------------------


async def test_a_worker_may_run_again_with_a_plain_handler(place: WorkerStreams) -> None:
    worker = place.worker(plain)
    for name in ("a-1", "a-2"):
        async with run_workers(worker):
            await place.push(a_body(name))
            await place.settled()
    assert [result["status"] for result in await place.results(2)] == ["success", "success"]


# -- a user's function that fails ------------------------------------------------------------------


def _raise(*_: object) -> NoReturn:
    raise BrokenPipeError("closed")


def _exit(*_: object) -> NoReturn:
    sys.exit(3)


async def _later() -> None: ...


@pytest.mark.parametrize("on_done", [_raise, _exit, lambda *_: _later()])
async def test_an_on_done_that_fails_leaves_the_result_as_it_is(
    place: WorkerStreams, on_done: object, lines: LogLines
) -> None:
    async with run_workers(place.worker(plain, on_done=on_done)):
        await place.push(a_body("a-1"), a_body("a-2"))
        results = await place.results(2)
        await place.settled()
    assert [result["status"] for result in results] == ["success", "success"]
    assert [line["function"] for line in lines.of("handler.failed")] == ["on_done"]


async def test_a_worker_whose_output_is_closed_drains_and_ends(place: WorkerStreams) -> None:
    worker = place.start_process()
    try:
        assert worker.stdout is not None
        assert (
            json.loads(await asyncio.to_thread(worker.stdout.readline))["event"] == "worker.ready"
        )
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


class Float64(float):
    """As numpy's: a float that JSON does not take."""


@pytest.mark.parametrize("cost", [Float64(0.5), Decimal("0.5"), Fraction(1, 2)])
def test_a_cost_of_any_number_is_a_float(cost: float) -> None:
    assert type(a_step(cost=cost).cost) is float
    assert a_step(cost=cost).cost == 0.5


@pytest.mark.parametrize("cost", ["0.5", None, 1j, 10**400, Decimal("1e999")])
def test_a_cost_that_is_no_number_is_refused_where_the_step_is_made(cost: object) -> None:
    with pytest.raises(ValueError, match="cost should be"):
        a_step(cost=cost)


@pytest.mark.parametrize("cost", [Float64(0.5), Decimal("0.5")])
async def test_a_cost_of_any_number_is_stored_with_the_result(
    place: WorkerStreams, cost: float
) -> None:
    async with run_workers(place.worker(lambda _: a_step(cost=cost))):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result["cost"]) == ("success", 0.5)


async def test_the_costs_of_all_attempts_are_stored_however_large(place: WorkerStreams) -> None:
    async with run_workers(
        place.worker(lambda _: a_step(status="error", cost=1.5e308, is_retriable=True))
    ):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result["cost"]) == ("error", sys.float_info.max)


class Unprintable:
    """An error code whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_an_error_code_without_a_text_is_an_error_result(place: WorkerStreams) -> None:
    async with run_workers(
        place.worker(lambda _: a_step(status="error", error_code=Unprintable()))
    ):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result["error_code"], result["cost"]) == ("error", "2002", 0.5)


async def _exits_at_once(assignment: ExecAssignment) -> StepResult:
    sys.exit(3)


async def _exits_later(assignment: ExecAssignment) -> StepResult:
    await asyncio.sleep(0.01)
    sys.exit(3)


async def _interrupts_at_once(assignment: ExecAssignment) -> StepResult:
    raise KeyboardInterrupt


async def _interrupts_later(assignment: ExecAssignment) -> StepResult:
    await asyncio.sleep(0.01)
    raise KeyboardInterrupt


async def _ends_as_a_generator(assignment: ExecAssignment) -> StepResult:
    await asyncio.sleep(0.01)
    raise GeneratorExit


def _interrupts(assignment: ExecAssignment) -> StepResult:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "handler", [_interrupts_at_once, _interrupts_later, _ends_as_a_generator, _interrupts]
)
async def test_what_would_end_the_process_fails_one_assignment(
    place: WorkerStreams, handler: object
) -> None:
    async with run_workers(place.worker(handler)):  # type: ignore[arg-type]
        await place.push(a_body("a-1"), a_body("a-2"))
        results = await place.results(2)
    assert [(result["status"], result["error_code"]) for result in results] == [
        ("error", "2001")
    ] * 2


class Unspeakable(Exception):
    """An exception whose text is another one."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


async def test_an_exception_without_a_text_is_an_error_result(place: WorkerStreams) -> None:
    async def fails(assignment: ExecAssignment) -> StepResult:
        raise Unspeakable

    async with run_workers(place.worker(fails)):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], result["error_code"], result["error_message"]) == (
        "error",
        "2001",
        "Unspeakable",
    )


@pytest.mark.parametrize("handler", [_exits_at_once, _exits_later, _exit])
async def test_a_handler_that_exits_fails_one_assignment(
    place: WorkerStreams, handler: object
) -> None:
    async with run_workers(place.worker(handler)):  # type: ignore[arg-type]
        await place.push(a_body("a-1"), a_body("a-2"))
        results = await place.results(2)
    assert [(result["status"], result["error_code"]) for result in results] == [
        ("error", "2001")
    ] * 2
    assert results[0]["error_message"] == "SystemExit: 3"


async def test_an_accepts_that_exits_is_an_attempt_that_failed(place: WorkerStreams) -> None:
    calls: list[str] = []

    def accepts(assignment: ExecAssignment) -> str | None:
        calls.append(assignment.assignment_id)
        return sys.exit(3) if len(calls) == 1 else None

    async with run_workers(place.worker(plain, accepts=accepts)):
        await place.push(a_body())
        (result,) = await place.results()
    assert (result["status"], calls) == ("success", ["a-1", "a-1"])


@pytest.mark.parametrize("answer", ["\ud800", 5, b"no", Unprintable()])
async def test_an_assignment_whose_reason_cannot_be_sent_is_given_up_at_last(
    place: WorkerStreams, answer: object
) -> None:
    async with run_workers(place.worker(plain, accepts=lambda _: answer, max_attempts=2)):
        await place.push(a_body())
        (letter,) = await place.letters()
        await place.settled()
    assert (letter["assignment_id"], letter["status"], letter["error_code"]) == (
        "a-1",
        "error",
        "5001",
    )


@pytest.mark.parametrize(
    "wrong", [Poison("\ud800"), ValueError("\ud800"), type("Odd", (Poison,), {"code": 5})("no")]
)
async def test_a_failure_whose_words_cannot_be_sent_is_answered(
    place: WorkerStreams, wrong: Exception
) -> None:
    async def fails(assignment: ExecAssignment) -> StepResult:
        raise wrong

    async with run_workers(place.worker(fails, max_attempts=2)):
        await place.push(a_body())
        told = await (place.letters() if isinstance(wrong, Poison) else place.results())
        await place.settled()
    assert [(one["assignment_id"], one["status"]) for one in told] == [("a-1", "error")]


async def test_a_handler_whose_own_task_was_cancelled_fails_one_assignment(
    place: WorkerStreams,
) -> None:
    async def awaits_a_cancelled_task(assignment: ExecAssignment) -> StepResult:
        task = asyncio.create_task(asyncio.sleep(30))
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        await task
        return a_step()

    async with run_workers(place.worker(awaits_a_cancelled_task)):
        await place.push(a_body("a-1"), a_body("a-2"))
        results = await place.results(2)
    assert [(result["status"], result["error_code"]) for result in results] == [
        ("cancelled", "2001")
    ] * 2


# -- plain handlers that do not return -------------------------------------------------------------


class Hanging:
    """A plain handler: an assignment `hung…` takes until `go_on` is set, any other ends at once."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun: list[str] = []

    def __call__(self, assignment: ExecAssignment) -> StepResult:
        self.begun.append(assignment.assignment_id)
        if assignment.assignment_id.startswith("hung"):
            self.go_on.wait(60)
        return a_step()


DEADLINE_MS = 10_000  # of what ends at once: a busy machine takes its time


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    handler = Hanging()
    yield handler
    handler.go_on.set()


async def test_an_assignment_begins_only_when_a_thread_is_free(
    place: WorkerStreams, hanging: Hanging, lines: LogLines
) -> None:
    async with run_workers(place.worker(hanging, slots=1, ack_wait_s=60.0)):
        await place.push(a_body("hung", **with_options(deadline_ms=50)))
        await place.results(1)
        await place.push(
            *(a_body(name, **with_options(deadline_ms=DEADLINE_MS)) for name in ("a-2", "a-3"))
        )
        await until(lambda: lines.of("worker.threads_held"))
        await asyncio.sleep(1.2 * DEADLINE_MS / 1000)
        assert [ack["assignment_id"] for ack in place.acks] == ["hung"]
        assert len(await place.stored(place.topology.results)) == 1
        hanging.go_on.set()
        results = await place.results(3)
    assert [(result["assignment_id"], result["status"]) for result in results[1:]] == [
        ("a-2", "success"),
        ("a-3", "success"),
    ]
    assert hanging.begun == ["hung", "a-2", "a-3"]
    (line,) = lines.of("worker.threads_held")
    assert (line["handler"], line["held"], line["threads"]) == ("Hanging", 1, 1)


async def test_what_waits_for_a_thread_is_handed_back_when_the_worker_stops(
    place: WorkerStreams, hanging: Hanging
) -> None:
    async with run_workers(place.worker(hanging, "held", slots=1, drain_s=60.0)):
        await place.push(a_body("hung", **with_options(deadline_ms=50)))
        await place.results(1)
        await place.push(a_body("a-2"))
        await until(lambda: place.beats[-1]["status"] == "busy")
    async with run_workers(place.worker(plain, "free")):
        _, result = await place.results(2)
        await place.settled()
    assert (result["status"], result["metadata"]["worker_id"], hanging.begun) == (
        "success",
        "free",
        ["hung"],
    )


async def test_another_attempt_that_waits_for_a_thread_is_handed_back_when_the_worker_stops(
    place: WorkerStreams, hanging: Hanging, lines: LogLines
) -> None:
    """Its thread was another's during its backoff, and that one hangs: the assignment did not fail
    by it.
    """
    fail = threading.Event()

    def handler(assignment: ExecAssignment) -> StepResult:
        answer = hanging(assignment)
        if assignment.assignment_id == "a-1":
            fail.wait(60)
            raise Transient("try again")
        return answer

    async with run_workers(place.worker(handler, "held", slots=2, drain_s=60.0)):
        await place.push(a_body("hung-1", **with_options(deadline_ms=50)))
        await place.results(1)
        await place.push(a_body("a-1", **with_options(deadline_ms=60_000)))
        await until(lambda: "a-1" in hanging.begun)
        await place.push(a_body("hung-2", **with_options(deadline_ms=50)))
        await until(lambda: lines.of("worker.threads_held"))
        fail.set()
        await until(lambda: "hung-2" in hanging.begun)
    async with run_workers(place.worker(plain, "free")):
        results = {result["assignment_id"]: result for result in await place.results(3)}
        await place.settled()
    assert (results["a-1"]["status"], results["a-1"]["metadata"]["worker_id"]) == (
        "success",
        "free",
    )
    assert hanging.begun == ["hung-1", "a-1", "hung-2"]


async def test_an_assignment_whose_thread_cannot_be_started_takes_no_other_s_place(
    place: WorkerStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, refused = threading.Thread.start, list[str]()

    def start_unless_first(thread: threading.Thread) -> None:
        if thread.name.startswith("router-worker") and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_unless_first)
    async with run_workers(place.worker(plain, slots=1)):
        await place.push(a_body("a-1"), a_body("a-2"))
        results = await place.results(2)
    said = {
        result["assignment_id"]: (result["status"], result.get("error_message"))
        for result in results
    }
    assert said == {"a-1": ("error", "can't start new thread"), "a-2": ("success", None)}


# -- a durable that another made -------------------------------------------------------------------


async def _make_durable(place: WorkerStreams, **settings: Any) -> None:
    spec = ConsumerSpec(
        **{
            "stream": place.topology.stream,
            "durable": "caf-worker",
            "filter_subject": place.subject,
            **settings,
        }
    )
    await create(place.jetstream, Topology((), (spec,)))


async def test_the_durable_s_own_ack_wait_says_how_often_a_worker_signals(
    place: WorkerStreams,
) -> None:
    """Else the server gives work in progress to another worker, where that of the durable is the
    shorter one.
    """
    await _make_durable(place, ack_wait=12.0)
    begun, signals, is_released = [], [], asyncio.Event()

    async def wait(assignment: ExecAssignment) -> StepResult:
        begun.append(assignment.assignment_id)
        await is_released.wait()
        return a_step()

    def hear(_subject: str, _reply: str, data: bytes, _headers: object) -> None:
        if data == IN_PROGRESS:
            signals.append(data)

    await place.connection.subscribe_direct(f"$JS.ACK.{place.topology.stream}.caf-worker.>", hear)
    async with run_workers(
        *(place.worker(wait, name, ack_wait_s=600.0) for name in ("w-1", "w-2"))
    ):
        await place.push(a_body(**with_options(deadline_ms=120_000)))
        await until(
            lambda: len(signals) == 2,
            what="two signals, each a quarter of the durable's ack wait after the last",
        )
        is_released.set()
        await place.results()
        await place.settled()
    assert begun == ["a-1"]


@pytest.mark.parametrize("others", [1, 2])
async def test_a_durable_with_another_filter_is_refused(place: WorkerStreams, others: int) -> None:
    has = [f"{place.subject}.other", f"{place.subject}.another"][:others]
    stream = place.topology.stream
    await place.jetstream.ask(
        f"STREAM.UPDATE.{stream}", {"name": stream, "subjects": [place.subject, *has]}
    )
    await _make_durable(place, filter_subject=None, filter_subjects=tuple(has))
    words = (
        f"subject: the durable caf-worker of {stream} gets {', '.join(sorted(has))}, and this "
        f"worker asks for {place.subject}: "
    )
    with pytest.raises(Misconfigured, match=re.escape(words)):
        await asyncio.wait_for(place.worker(plain).run(), 60)


async def test_another_filter_at_work_is_told_in_the_log_and_nothing_is_taken(
    place: WorkerStreams, lines: LogLines
) -> None:
    stream = place.topology.stream
    await place.jetstream.ask(
        f"STREAM.UPDATE.{stream}",
        {"name": stream, "subjects": [place.subject, f"{place.subject}.other"]},
    )

    async def replace_durable() -> bool:
        await place.jetstream.ask(f"CONSUMER.DELETE.{stream}.caf-worker")
        with suppress(BrokerRefused):  # the worker was first: it is tried again
            await _make_durable(place, filter_subject=f"{place.subject}.other")
        return "and this worker asks for" in lines.stream.getvalue()

    async with run_workers(place.worker(plain)):
        await until(replace_durable)


@pytest.mark.parametrize(("has", "asked"), [(None, "the subject"), ("the subject", None)])
async def test_no_filter_is_the_same_as_the_stream_s_only_subject(
    place: WorkerStreams, has: str | None, asked: str | None
) -> None:
    await _make_durable(place, filter_subject=place.subject if has else None)
    async with run_workers(place.worker(plain, subject=place.subject if asked else None)):
        await place.push(a_body())
        assert len(await place.results()) == 1


# -- assignments with ids above the limits ---------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"tenant_id": "t" * 70_000},  # its headers would be above JetStream's limit
        {"tenant_id": "t" * 600_000},  # a report of it would be above the server's
        {"tenant_id": "a b"},
        {"trace_id": "t" * 70_000},
        {"request_id": "r" * 600_000},
        {"run_id": "r" * 129},
        {"flow_id": "f" * 129},
        {"step_id": "a b"},
        {"executor": {"provider_id": "p" * 257}},
        {"job": {"type": "j" * 257}},
    ],
    ids=lambda wrong: "-".join(wrong),
)
async def test_an_assignment_with_an_id_that_is_none_is_reported_and_the_next_one_is_done(
    place: WorkerStreams, wrong: dict[str, object]
) -> None:
    async with run_workers(place.worker(plain)):
        await place.push(a_body("a-1", **wrong), a_body("a-2"))
        (report,), (result,) = await place.unread(), await place.results()
        await place.settled()
    assert (report["assignment_id"], report["reason"], result["assignment_id"]) == (
        "a-1",
        "1001",
        "a-2",
    )
    assert next(iter(wrong)).split("_")[0] in report["message"]


async def test_a_workflow_id_that_is_empty_is_absent(place: WorkerStreams) -> None:
    async with run_workers(place.worker(plain)):
        await place.push(a_body("a-1", run_id="", flow_id=None, trace_id=""))
        (result,) = await place.results()
    assert not {"run_id", "flow_id", "trace_id"} & set(result)
