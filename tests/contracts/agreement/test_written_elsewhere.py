"""What the SDK writes, and the messages that pages show, are valid."""

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from router.contracts.acknowledgement import ExecAssignmentAck
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.result import read_plain_result
from router.contracts.worker import DEFAULT_LIMITS
from router.core.outcome import Fault
from router.extensions.model.entry import VALIDATOR
from router.operate.catalogue import build_shapes
from router.sdk.attempts import AttemptsResult
from router.sdk.client import _body
from router.sdk.extension import Extension
from router.sdk.extension.function_runner import FunctionRunner
from router.sdk.reports import (
    JSON_ENCODING,
    acknowledgement_bytes,
    result_bytes,
    unread_bytes,
    unstarted_bytes,
)
from router.sdk.samples.extensions.echo_provider import echo
from router.sdk.samples.extensions.mask_payload import mask_payload
from router.sdk.samples.extensions.mask_pii import mask_pii
from router.sdk.samples.extensions.normalize_text import normalize_text
from router.sdk.samples.extensions.pii_guard import pii_guard
from router.sdk.step import StepResult
from router.sdk.worker import WorkerHeartbeat
from tests.contracts.agreement.compare import validator_of
from tests.support.extension_author import a_prompt, a_request, data_of
from tests.support.requests import GOOD_HEADERS, a_message

TOP = Path(__file__).parents[3]
SHAPES = build_shapes()
ASSIGNMENT = read_exec_assignment(orjson.dumps(SHAPES["assignment"].examples[0]))
PROCESSORS = (normalize_text, mask_payload, pii_guard, mask_pii)
STEPS = (
    StepResult(output={"text": "Hi"}, cost=0.5, metadata={"model": "m"}),
    StepResult(output=b"\xff"),
    StepResult(status="error", error_code=2001, error_message="it raised"),
    StepResult(status="timeout", error_code="4001"),
    StepResult(status="cancelled"),
)


def write_result(step: StepResult) -> bytes:
    return result_bytes(
        ASSIGNMENT,
        AttemptsResult(step, attempts=1, latency_ms=812),
        worker_id="w-1",
        now_ms=1_700_000_000_000,
    )


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.status)
def test_a_workers_result_is_valid(step: StepResult) -> None:
    validator_of(SHAPES["result"]).validate(orjson.loads(write_result(step)))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.status)
def test_a_workers_result_is_read_in_one_typed_parse(step: StepResult) -> None:
    assert (
        read_plain_result(a_message(write_result(step), GOOD_HEADERS), DEFAULT_LIMITS) is not None
    )


def test_a_workers_other_messages_are_valid() -> None:
    fault = Fault("handler_failed", "why")
    given_up = unstarted_bytes(ASSIGNMENT, fault, code="5001", now_ms=1)
    unread = unread_bytes(a_message(headers={"Nats-Msg-Id": "a-1"}), fault, code="1001", now_ms=1)
    ack = ExecAssignmentAck(
        assignment_id="a-1", status="accepted", acknowledged_at=1, message="mine"
    )
    validator_of(SHAPES["result"]).validate(orjson.loads(given_up))
    validator_of(SHAPES["unread-report"]).validate(orjson.loads(unread))
    validator_of(SHAPES["ack"]).validate(orjson.loads(acknowledgement_bytes(ack, JSON_ENCODING)))


class RecordedConnection:
    """It keeps what is published."""

    is_connected = True

    def __init__(self) -> None:
        self.published: list[bytes] = []

    def publish_nowait(self, _subject: str, data: bytes) -> None:
        self.published.append(data)


def test_a_workers_heartbeats_are_valid() -> None:
    connection, in_hand = RecordedConnection(), iter((0, 3, 1))
    heartbeat = WorkerHeartbeat(
        connection, "caf", "w-1", interval_s=0.0001, capacity=4, in_hand=lambda: next(in_hand)
    )
    heartbeat._beat()
    heartbeat._beat()
    heartbeat.drain()
    statuses = [orjson.loads(data)["status"] for data in connection.published]
    assert statuses == ["idle", "busy", "draining"]
    for data in connection.published:
        validator_of(SHAPES["heartbeat"]).validate(orjson.loads(data))


def test_a_clients_requests_are_valid() -> None:
    for payload, beside in (
        ("hi", {"policy_id": "fast", "context": {"user_id": "u"}}),
        (b"\xff", {"push_assignment": True}),
        ({"a": 1}, {}),
    ):
        validator_of(SHAPES["decide"]).validate(
            orjson.loads(_body("acme", "chat", payload, beside))
        )


@pytest.mark.parametrize("sample", PROCESSORS, ids=lambda sample: sample.id)
def test_what_the_sample_extensions_answer_is_valid(sample: Extension) -> None:
    shape = SHAPES["extension-verdict" if sample.kind == VALIDATOR else "extension-message"]
    for payload in ("Hello  Ada", "card 4111 1111 1111 1111", {"text": ["a@example.com"]}):
        validator_of(shape).validate(
            orjson.loads(FunctionRunner(sample).run_now(data_of(a_request(payload)), {}))
        )


async def test_what_the_sample_provider_answers_is_valid() -> None:
    runner, call = FunctionRunner(echo), data_of(a_prompt("hello Ada", provider_id="echo"))
    validator_of(SHAPES["provider-answer"]).validate(orjson.loads(await runner.run(call, {}, None)))
    async for piece in runner.stream(call, {}, None):
        validator_of(SHAPES["chunk"]).validate(orjson.loads(piece))


def read_blocks(page: str) -> list[Any]:
    return [
        json.loads(block)
        for block in re.findall(r"```json\n(.*?)```", (TOP / page).read_text(), re.DOTALL)
    ]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (
            "docs/reference/extension-json.md",
            [
                "extension-request",
                "extension-message",
                "extension-verdict",
                "provider-call",
                "provider-answer",
                "chunk",
            ],
        ),
        ("docs/how-to/write-a-worker.md", ["ack"]),
        ("docs/how-to/requests.md", ["answer"]),
        (
            "docs/reference/messages.md",
            [shape.name for shape in SHAPES.values() for _ in shape.examples],
        ),
    ],
)
def test_the_messages_of_a_page_are_valid(page: str, names: list[str]) -> None:
    for name, message in zip(names, read_blocks(page), strict=True):
        validator_of(SHAPES[name]).validate(message)
