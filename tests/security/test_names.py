"""Each name of each contract has a length, in JSON and in protobuf; what is longer is refused where
it ties messages together, else cut.
"""

from collections.abc import Callable
from typing import Any

import pytest

from router.contracts.acknowledgement import ExecAssignmentAck, read_acknowledgement
from router.contracts.heartbeat import Heartbeat, read_heartbeat
from router.contracts.ingress import read_ingress
from router.contracts.malformed import Malformed
from router.contracts.result import MAX_CODE, ExecResult, read_result
from router.core import ids
from router.core.masking import MAX_TEXT
from router.core.message import Message
from router.core.outcome import Fault
from router.decide.model.read import read
from tests.support.requests import a_body, a_message, a_protobuf
from tests.support.workers import a_protobuf_ack, a_result, an_ack, in_every_form

REFUSED_IDS = ["tenant_id", "assignment_id", "request_id", "trace_id", "provider_id"]
MEGABYTE = "n" * 1_000_000
HALF = "n" * 400_000


def _decided(**fields: Any) -> object:
    return read(a_message(fields)).asked


def _message(**fields: Any) -> dict[str, Any]:
    return a_body(**fields)


REQUESTS: dict[str, tuple[int, Callable[[str], object]]] = {
    "tenant": (128, lambda name: _decided(**_message(tenant_id=name))),
    "policy": (128, lambda name: _decided(**_message(), policy_id=name)),
    "message type": (256, lambda name: _decided(**_message(message_type=name))),
    "type": (
        256,
        lambda name: _decided(message={"tenant_id": "acme", "type": name, "payload": "x"}),
    ),
    "task type": (
        256,
        lambda name: _decided(tenant_id="acme", task={"type": name, "payload": "x"}),
    ),
    "request": (128, lambda name: _decided(**_message(), request_id=name)),
    "message": (128, lambda name: _decided(**_message(message_id=name))),
    "trace": (128, lambda name: _decided(**_message(trace_id=name))),
    "idempotency key": (256, lambda name: _decided(**_message(), idempotency_key=name)),
    "payload reference": (4096, lambda name: _decided(**_message(payload=None, payload_ref=name))),
    "run": (128, lambda name: _decided(**_message(run_id=name, flow_id="f", step_id="s"))),
    "step": (128, lambda name: _decided(**_message(run_id="r", flow_id="f", step_id=name))),
    "tenant, protobuf": (128, lambda name: read(a_message(a_protobuf(tenant_id=name))).asked),
    "message type, protobuf": (
        256,
        lambda name: read(a_message(a_protobuf(message_type=name))).asked,
    ),
    "message, protobuf": (128, lambda name: read(a_message(a_protobuf(message_id=name))).asked),
    "ack's assignment": (128, lambda name: read_acknowledgement(an_ack(assignment_id=name)).found),
    "ack's assignment, protobuf": (
        128,
        lambda name: read_acknowledgement(a_protobuf_ack(assignment_id=name)).found,
    ),
    "ack's tenant": (128, lambda name: read_acknowledgement(an_ack(tenant_id=name)).found),
    "worker": (128, lambda name: read_heartbeat(_beat(name), 0)),
    "ingress message": (128, lambda name: _ingress(message_id=name)),
    "ingress tenant": (128, lambda name: _ingress(tenant_id=name)),
    "ingress correlation": (128, lambda name: _ingress(correlation_id=name)),
}


def _beat(name: str) -> bytes:
    return b'{"worker_id":"%b","status":"idle"}' % name.encode()


def _ingress(**fields: Any) -> object:
    try:
        return read_ingress(
            {"message_id": "m", "tenant_id": "acme", "message_type": "t", "payload": "x", **fields},
            {},
        )
    except Malformed as refused:
        return refused.as_fault()


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_name_is_taken_up_to_its_length_and_refused_above(kind: str) -> None:
    most, read_one = REQUESTS[kind]
    assert not isinstance(read_one("n" * most), Fault)
    for name in ("n" * (most + 1), MEGABYTE):
        assert isinstance(read_one(name), Fault)


@pytest.mark.parametrize("form", ["json", "protobuf", "envelope"])
@pytest.mark.parametrize(("field", "most"), [*((name, 128) for name in REFUSED_IDS), ("job", 256)])
def test_a_result_s_name_is_taken_up_to_its_length_in_every_form(
    form: str, field: str, most: int
) -> None:
    def result(length: int) -> ExecResult | Fault:
        name = "n" * length
        return read_result(
            in_every_form(**{field: {"type": name} if field == "job" else name})[form]
        ).found

    assert isinstance(result(most), ExecResult)
    assert isinstance(result(most + 1), Fault)


def test_words_for_people_are_cut_and_refuse_nothing() -> None:
    told = read_result(a_result(status="error", error_code=HALF, error_message=HALF)).found
    ack, by_protobuf = (
        read_acknowledgement(an_ack(message=MEGABYTE)).found,
        read_acknowledgement(a_protobuf_ack(message=MEGABYTE)).found,
    )
    assert isinstance(told, ExecResult)
    assert isinstance(ack, ExecAssignmentAck)
    assert isinstance(by_protobuf, ExecAssignmentAck)
    assert len(told.error_code or "") == MAX_CODE
    for words in (told.error_message, ack.message, by_protobuf.message):
        assert 0 < len(words or "") <= MAX_TEXT


def test_a_header_that_is_too_long_counts_as_absent() -> None:
    headers = dict.fromkeys(("tenant_id", "trace_id", "Nats-Msg-Id", "traceparent"), MEGABYTE)
    request: Message = a_message(a_body(), headers)
    beat = read_heartbeat(_beat("w"), 0, headers)
    assert read(request).tenant_id == "acme"
    assert isinstance(beat, Heartbeat)
    assert beat.tenant_id is None


def test_a_name_that_is_too_long_is_answered_and_not_kept() -> None:
    names = ids.ScopedNames(limit=2)
    assert [
        names["a"],
        names["-"],
        names["_a"],
        names["n" * 128],
        names["n" * 129],
        names[MEGABYTE],
    ] == [True, True, False, True, False, False]
    assert sum(map(len, names)) <= 2 * ids.MAX_NAME
