"""Every field that the specifications' tables do not mark optional is in all that a worker of the
SDK says.
"""

import json

from router.contracts.pb.beamline.worker.v1 import ack_pb2, result_pb2
from router.core.errors import Poison
from router.sdk import ExecAssignment, StepResult
from router.sdk.reports import PROTOBUF_ENCODING
from tests.support.sdk import (
    Json,
    WorkerStreams,
    a_body,
    run_workers,
    with_options,
)
from tests.support.spec_tables import find_faults_in
from tests.support.waiting import until

WORKS = (
    "text",
    "none",
    "bytes",
    "error",
    "raises",
    "unsendable",
    "timeout",
    "hopeless",
    "unwanted",
)
LITTLE = {
    "trace_id": None,
    "metadata": None,
    "options": None,
    "correlation": None,
    "decision": None,
}


def _answer(assignment: ExecAssignment) -> StepResult:
    match assignment.payload:
        case "none":
            return StepResult()
        case "bytes":
            return StepResult(output=b"\xff", cost=1e-9, metadata={"model": "m"})
        case "error" | "timeout" as status:
            return StepResult(status=status)
        case "unsendable":
            return StepResult(output=object())
        case "hopeless":
            raise Poison("")
        case "raises":
            raise RuntimeError
    return StepResult(output="hi", cost=1)


def _list_assignments() -> list[Json]:
    """Of each kind of work one with all that is optional, and one with nothing of it."""
    job = [{"type": "chat", "payload": work} for work in WORKS]
    whole = [
        a_body(
            f"a-{one['payload']}",
            job=one,
            run_id="u",
            flow_id="f",
            step_id="s",
            **with_options(attempts=1),
        )
        for one in job
    ]
    return whole + [a_body(f"b-{one['payload']}", job=one, **LITTLE) for one in job]


async def test_everything_that_a_worker_says_has_the_fields_of_its_table(
    place: WorkerStreams,
) -> None:
    sent = _list_assignments()
    works = place.worker(
        _answer,
        accepts=lambda one: "not mine" if one.payload == "unwanted" else None,
        max_attempts=1,
    )
    async with run_workers(works):
        await place.push(*sent)
        results, letters = await place.results(14), await place.letters(4)
        await until(lambda: len(place.acks) >= len(sent) and len(place.beats) > 2)
    assert find_faults_in("exec_result", results, least=14) == []
    assert find_faults_in("given_up_assignment", letters, least=4) == []
    assert find_faults_in("assignment_ack", place.acks, least=len(sent)) == []
    assert find_faults_in("heartbeat", [*place.beats], least=3) == []
    assert {one["status"] for one in results} == {"success", "error", "timeout"}


async def test_what_a_worker_says_in_protobuf_has_them_too(place: WorkerStreams) -> None:
    acks: list[bytes] = []
    await place.connection.subscribe_direct(
        f"{place.topology.acks}.packed", lambda _s, _r, data, _h: acks.append(data)
    )
    places = {"topology": _named_apart(place)}
    async with run_workers(place.worker(_answer, encoding=PROTOBUF_ENCODING, **places)):
        await place.push(
            *(
                one
                for one in _list_assignments()
                if one["job"]["payload"] not in {"hopeless", "unwanted"}
            )
        )
        await until(lambda: len(acks) >= 14)
        await until(lambda: _has_stored(place, 14))
        stored = await place.stored(place.topology.results)
    results = [result_pb2.ExecResult.FromString(one.data) for one in stored]
    assert all(
        (
            one.assignment_id,
            one.request_id,
            one.status,
            one.provider_id,
            one.job.type,
            one.tenant_id,
        )
        for one in results
    )
    told = [ack_pb2.ExecAssignmentAck.FromString(data) for data in acks]
    assert all(
        (one.assignment_id, one.status, one.request_id, one.tenant_id, one.acknowledged_at)
        for one in told
    )


def _named_apart(place: WorkerStreams) -> object:
    """Acknowledgements in protobuf go to a subject of their own: the other one is read as JSON."""
    from msgspec.structs import replace

    return replace(place.topology, acks=f"{place.topology.acks}.packed")


async def _has_stored(place: WorkerStreams, count: int) -> bool:
    return len(await place.stored(place.topology.results)) >= count


async def test_bytes_that_are_no_assignment_are_no_result(place: WorkerStreams) -> None:
    """A result of them would have neither request, provider nor type: they are told on a subject of
    their own.
    """
    async with run_workers(place.worker(_answer)):
        await place.push(b"nonsense", json.dumps({"assignment_id": "a-1"}).encode(), a_body("a-2"))
        reports, results = await place.unread(2), await place.results()
        await place.settled()
    assert [(one["reason"], one["payload_ref"]["len"]) for one in reports] == [
        ("1001", 8),
        ("1001", 24),
    ]
    assert (len(results), await place.stored(place.topology.letters)) == (1, [])
