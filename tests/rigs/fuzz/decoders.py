"""Everything of ours that reads bytes from outside, with good messages to begin from and the one
kind of error it may raise.

A decoder that answers with a Fault instead of raising refuses by that; one that may not refuse at
all (`parse`, `parse_head`) has no error here, and anything it raises breaks it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

from router.agents.envelope import read_envelope as read_agent_envelope
from router.bus.commands import _format_line as tail_line
from router.contracts.acknowledgement import read_acknowledgement
from router.contracts.assignment_record import read_record as read_assignment_record
from router.contracts.assignment_record import read_stored_acknowledgement
from router.contracts.codec import read_object, read_value
from router.contracts.dead_letter import build_dead_letter
from router.contracts.envelope import envelope_bytes, extract_envelope_ids
from router.contracts.envelope import read_envelope as read_bus_envelope
from router.contracts.exact_json import dump_json
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.extension import (
    InvalidExtensionMessage,
    read_processor_answer,
    read_validator_answer,
)
from router.contracts.extension import read_request as read_extension_request
from router.contracts.extract import extract_ids
from router.contracts.heartbeat import read_heartbeat
from router.contracts.ingress import read_body_of, read_ingress
from router.contracts.malformed import Malformed
from router.contracts.provider import read_response
from router.contracts.provider_call import read_answer as read_provider_answer
from router.contracts.provider_call import read_piece
from router.contracts.provider_chunk import read_chunk
from router.contracts.provider_request import read_request as read_invocation
from router.contracts.result import read_result
from router.contracts.stored_record import record_bytes
from router.contracts.version_record import make_record
from router.contracts.version_record import read_record as read_version
from router.contracts.worker import DEFAULT_LIMITS
from router.core.errors import RouterError
from router.core.message import Message
from router.core.outcome import Dead, Done, Fault
from router.decide.model.read import read as read_decide
from router.delivery.consume.advisories import stranded_sequence
from router.delivery.kv.entries import BucketEntry as Held
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import FrameParser, PlainFrames, parse_head
from router.extensions.model import EntryError, load_entry
from router.extensions.store import read_registered
from router.lake.tables.arrow import MESSAGE
from router.lake.tables.event import parse_messages
from router.mailbox.inbox.event import read_event
from router.operate.admin.request_guard import RequestGuard
from router.operate.admin.service import ServiceError
from router.operate.commands.dead_letters.replay import _decode_text as opened_in_an_editor
from router.operate.dead_letters.parse import as_full_fields, parse
from router.policies.model import PolicyError, load_policy, parse_policy
from router.policies.model.breakers import BreakerRecord, breaker_key, read_breaker_record
from router.policies.store import check_policy
from router.sdk.client import read_answer
from router.shell.output import format_bytes
from router.work.model import make_marked_event, make_usage_effect
from tests.decide.test_push import Book, a_handler
from tests.rigs.fuzz.feeding import Decoder, Seed, read_any_json
from tests.support.agents import a_command
from tests.support.bus import an_envelope
from tests.support.dead_letters import a_dead_letter, a_failed_message, a_stored_dead_letter
from tests.support.extension_author import a_prompt, data_of
from tests.support.extension_author import a_request as an_extension_request
from tests.support.policy import a_document, a_provider, a_rule
from tests.support.registry import a_version, an_entry
from tests.support.requests import GOOD_HEADERS, TRACEPARENT, a_message, every_form
from tests.support.sdk import a_body as an_assignment
from tests.support.workers import ACKS, RESULTS, a_protobuf_ack, a_result, an_ack, in_every_form

Headers = Mapping[str, str]

CONTRACT = {**GOOD_HEADERS, "traceparent": TRACEPARENT}
RICH = orjson.dumps(
    {
        "a": [1, 2.5, "x", None, True, {"b": []}],
        "payload": {"deep": {"er": [[]]}},
        "payload_encoding": "base64",
    }
)
POLICY = a_document(
    a_provider("openai", 70, expected_latency_ms=800, expected_cost=0.012),
    a_provider("anthropic", 30, priority=10),
    pre=[
        {
            "id": "lower",
            "mode": "required",
            "config": {"a": 1},
            "when": {"==": [{"var": "context.a"}, 1]},
        }
    ],
    validators=[{"id": "guard", "on_fail": "block", "timeout_ms": 100}],
    circuit_breaker={"enabled": True, "failure_threshold": 5, "timeout_ms": 30000},
    fallbacks=[a_rule("anthropic", {"status": ["timeout", "5xx"]}, retry=2)],
    sticky={"enabled": True, "session_key": "user_id", "ttl": "10m"},
    rate_limit={"enabled": True, "requests_per_second": 100, "burst": 50},
    metadata={"free": {"form": [1]}},
)
OLD_POLICY = {
    "version": "1.0",
    "weights": {"openai": 0.7, "b": 0.3},
    "fallback": "b",
    "sticky": {"key": "u", "ttl_seconds": 5},
}
ENTRY = an_entry(
    "guard",
    metadata={"a": 1},
    versions=[
        a_version(rules={"tenant_id": ["acme"]}, instances=[{"id": "a", "weight": 2}]),
        a_version("v2", default=True),
    ],
)
USAGE_MS = 1_700_000_000_500
USAGE = {
    **{
        "version": "1",
        "tenant_id": "acme",
        "provider_id": "openai",
        "event_type": "chat",
        "latency_ms": 812,
        "cost": 0.0123,
    },
    **{
        "status": "success",
        "timestamp": USAGE_MS,
        "trace_id": "t-1",
        "assignment_id": "a-1",
        "request_id": "r-1",
    },
}
DECIDED = {
    "provider_id": "openai",
    "reason": "weighted",
    "priority": 50,
    "expected_latency_ms": 800,
    "expected_cost": 0.01,
}
ANSWER = {
    "ok": True,
    "decision": {**DECIDED, "metadata": {"policy_id": "default"}},
    "context": {"request_id": "r-1"},
}
INGRESS = {
    "message_id": "m-1",
    "tenant_id": "acme",
    "type": "chat",
    "payload": {"a": 1},
    "timestamp": 1,
    "metadata": {"a": "b"},
    "version": "1",
}


def _is_fault(value: Any) -> bool:
    return isinstance(getattr(value, "asked", getattr(value, "found", value)), Fault)


def _seeds(*bodies: Any, headers: Headers | None = None) -> tuple[Seed, ...]:
    return tuple(
        Seed(one if isinstance(one, bytes) else orjson.dumps(one), headers or {}) for one in bodies
    )


def _plain(read: Callable[[bytes], Any]) -> Callable[[bytes, Headers], Any]:
    return lambda data, _: read(data)


async def _wait_for(outcome: Awaitable[Any]) -> None:
    await outcome


def _decided() -> Callable[[bytes, Headers], Any]:
    """The whole handler: what it answers and the dead letter it would leave can always be written."""
    handler = a_handler(Book())

    def read(data: bytes, headers: Headers) -> Any:
        message = a_message(data, headers)
        outcome = handler(message)
        if not isinstance(outcome, Done | Dead):
            asyncio.run(_wait_for(outcome))  # a pushed one: its book answers at once
            return None
        if outcome.reply is not None:
            read_any_json(outcome.reply.data)
        if isinstance(outcome, Dead):
            letter = build_dead_letter(
                message,
                outcome.reason,
                outcome.fault,
                node_id="n",
                now_ms=1,
                max_bytes=1 << 20,
                seen=extract_ids(message),
            )
            read_any_json(letter.data)
            assert (
                parse(a_stored_dead_letter(letter.data, letter.subject, **letter.headers)).reason
                == outcome.reason
            )
        return outcome

    return read


def _metered(data: bytes, headers: Headers) -> Any:
    """A result as far as its usage event, which Spark and every other reader of the stream must be
    able to read.
    """
    reading = read_result(a_message(data, headers, subject=RESULTS))
    if not isinstance(reading.found, Fault) and not isinstance(
        event := make_marked_event(reading.found), Fault
    ):
        orjson.loads(make_usage_effect(event).data)
    return reading


def _letter(data: bytes, headers: Headers) -> Any:
    as_sent = parse_head(head_of(headers)) or {}
    found = parse(
        a_stored_dead_letter(
            data,
            **{name: value for name, value in as_sent.items() if name not in ("data", "subject")},
        )
    )
    parse(a_stored_dead_letter(data, "caf.exec.dlq.v1"))
    return found


def _sifted(data: bytes, _: Headers) -> Any:
    row = dict.fromkeys(MESSAGE.names) | {
        "seq": 1,
        "subject": "beamline.usage.v1.metered",
        "time": datetime.fromtimestamp(USAGE_MS / 1000, UTC),
        "data": data,
        "stream": "S",
        "headers": [],
    }
    events, refused = parse_messages(pa.RecordBatch.from_pylist([row], MESSAGE))
    assert len(events) + len(refused) == 1
    return len(events)


class _Receiver:
    """The connection of a FrameParser, with one subscription."""

    def __init__(self) -> None:
        self.callbacks: dict[int, Any] = {1: lambda *_: None}
        self.takers: dict[int, Any] = {1: partial(_take_all, PlainFrames(1))}


def _take_all(frames: PlainFrames, data: bytes, at: int) -> int:
    return max((after for *_, after in frames.read(data, at)), default=at)


def _head(data: bytes, _: Headers) -> Any:
    """Every way in: the fast one, nats-py's own, and a whole frame through the splitter."""
    found = parse_head(data)
    assert found is None or all(
        type(name) is str and type(value) is str for name, value in found.items()
    )
    assert _run(Connection._process_headers(None, data)) == (found if data else None)  # type: ignore[arg-type]
    wire = FrameParser(_Receiver())
    _run(wire.parse(b"HMSG a.b 1 %d %d\r\n%b\r\n" % (len(data), len(data), data)))
    return found


def _run(work: Any) -> Any:
    """A coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waited")


def _registered(data: bytes, _: Headers) -> Any:
    return read_registered(Held("guard", data, 1, 0))


def _policy_in_force(data: bytes, _: Headers) -> Any:
    record = read_version(data)
    return parse_policy(record.document, "acme", "default", record.version)


def _ingress(data: bytes, headers: Headers) -> Any:
    return read_ingress(read_body_of(data, DEFAULT_LIMITS), headers)


def _message(read: Callable[[Message], Any], subject: str) -> Callable[[bytes, Headers], Any]:
    return lambda data, headers: read(a_message(data, headers, subject=subject))


FORMS = every_form()
RESULT_FORMS = in_every_form()
BREAKER = BreakerRecord(
    tenant_id="acme",
    provider_id="openai",
    state="open",
    opened_at_ms=1,
    until_ms=2,
    node="n",
    life="l",
)
RECORD = record_bytes(make_record(POLICY, version=3, author="ann", at_s=1.0))
DOOR = RequestGuard("a key")
CHANGED = {
    "payload": {"message_type": "chat", "payload": "hi", "metadata": {"a": 1}},
    "metadata": {"normalized": "true"},
}
JUDGED = {"status": "reject", "reason": "pii", "details": {"pattern": "x"}}
CHUNK = {
    "request_id": "r-1",
    "data": "aGk=",
    "payload_encoding": "base64",
    "done": False,
    "metadata": {"a": {"b": 1}},
}
OUTPUT = {
    "provider_id": "mine",
    "output": {"text": "hi"},
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    "metadata": {"a": [1]},
    "cost": 0.1,
}
RESPONSE = {
    "request_id": "r-1",
    "status": "success",
    "body": "aGk=",
    "payload_encoding": "base64",
    "metadata": {"a": "b"},
    "latency_ms": 1,
    "cost": 0.1,
}
ASSIGNMENT_RECORD = {
    "version": "1",
    "subject": "caf.exec.assign.v1",
    "headers": {"a": "b"},
    "requested_at_ms": 1_700_000_000_000,
    "assignment": an_assignment("a-1", decision={**DECIDED, "metadata": {"policy_id": "default"}}),
    "content": "ab",
}
BEAT = {
    "worker_id": "w-1",
    "timestamp": 1_700_000_000_000,
    "status": "busy",
    "load": 0.5,
    "capacity": 4,
    "interval_ms": 1000,
    "tenant_id": "acme",
}

DECODERS: dict[str, Decoder] = {
    "codec: object": Decoder(_seeds(RICH), _plain(read_object), (Malformed,)),
    "codec: value": Decoder(_seeds(RICH, [1], "x"), _plain(read_value), (Malformed,)),
    **{
        f"decide: form {form}": Decoder(
            (Seed(one.data, {**CONTRACT, **one.headers}), Seed(one.data, one.headers)),
            _message(read_decide, one.subject),
            (),
            _is_fault,
        )
        for form, one in FORMS.items()
    },
    "decide: handler, answer, letter": Decoder(
        (
            # pushed under no policy of its own: the outcome is a Deferred, and no coroutine
            Seed(
                b'{"push_assignment":true,"tenant_id":"acme","message_type":"chat","payload":"x"}'
            ),
            *(
                Seed(one.data, headers)
                for one in FORMS.values()
                for headers in (CONTRACT, one.headers)
            ),
        ),
        _decided(),
        (),
        lambda came: isinstance(came, Dead),
    ),
    **{
        f"result: {form}": Decoder(
            (Seed(one.data, CONTRACT), Seed(one.data)), _metered, (), _is_fault
        )
        for form, one in RESULT_FORMS.items()
    },
    "ack": Decoder(
        (Seed(an_ack().data, CONTRACT), Seed(a_protobuf_ack().data)),
        _message(read_acknowledgement, ACKS),
        (),
        _is_fault,
    ),
    "heartbeat": Decoder(
        _seeds(BEAT, {"version": "1", "kind": "heartbeat", "data": BEAT}),
        lambda data, headers: read_heartbeat(data, 1, headers),
        (),
        _is_fault,
    ),
    "ingress": Decoder(_seeds(INGRESS, headers=CONTRACT), _ingress, (Malformed,)),
    "assignment, as a worker reads it": Decoder(
        _seeds(an_assignment("a-1", run_id="r", flow_id="f", step_id="s")),
        _plain(read_exec_assignment),
        (RouterError,),
    ),
    "extension: pre, post answer": Decoder(
        _seeds(CHANGED), _plain(read_processor_answer), (InvalidExtensionMessage,)
    ),
    "extension: validator answer": Decoder(
        _seeds(JUDGED, {"status": "ok"}, {"valid": True}),
        _plain(read_validator_answer),
        (InvalidExtensionMessage,),
    ),
    "extension: request, as its author reads it": Decoder(
        _seeds(data_of(an_extension_request())),
        _plain(read_extension_request),
        (InvalidExtensionMessage,),
    ),
    "provider: invocation": Decoder(
        _seeds(
            data_of(a_prompt()),
            {"provider_id": "mine", "tenant_id": "acme", "body": "hi"},
            headers=CONTRACT,
        ),
        read_invocation,
        (Malformed,),
    ),
    "provider: answer": Decoder(
        _seeds(OUTPUT),
        _plain(lambda data: read_provider_answer(data, "mine")),
        (InvalidExtensionMessage,),
    ),
    "provider: stream piece": Decoder(
        _seeds(CHUNK, OUTPUT),
        _plain(lambda data: read_piece(data, "mine")),
        (InvalidExtensionMessage,),
    ),
    "provider: chunk, as a client reads it": Decoder(
        _seeds(CHUNK), _plain(read_chunk), (RouterError,)
    ),
    "provider: response, as a client reads it": Decoder(
        _seeds(RESPONSE), _plain(read_response), (RouterError,)
    ),
    "decision, as a client reads it": Decoder(
        _seeds(ANSWER, b'{"stream":"S","seq":1}'), _plain(read_answer), (RouterError,)
    ),
    "policy document": Decoder(
        _seeds(POLICY, OLD_POLICY),
        _plain(lambda data: load_policy(data, "acme", "default")),
        (PolicyError,),
    ),
    "policy document, as it is put": Decoder(
        _seeds(POLICY), _plain(lambda data: check_policy(data, "acme", "default")), (PolicyError,)
    ),
    "policy record in its bucket": Decoder(_seeds(RECORD), _policy_in_force, (RouterError,)),
    "extension entry": Decoder(_seeds(ENTRY, an_entry("guard")), _plain(load_entry), (EntryError,)),
    "extension record in its bucket": Decoder(
        _seeds(record_bytes(make_record(ENTRY, version=1, author="ann", at_s=1.0)), ENTRY),
        _registered,
        (RouterError,),
    ),
    "assignment record in its bucket": Decoder(
        _seeds(ASSIGNMENT_RECORD),
        _plain(lambda data: read_assignment_record(data).read_assignment()),
        (RouterError,),
    ),
    "acknowledgement in its bucket": Decoder(
        _seeds({"status": "accepted", "at_ms": 1}),
        _plain(read_stored_acknowledgement),
        (RouterError,),
    ),
    "breaker in its bucket": Decoder(
        _seeds(record_bytes(BREAKER)),
        _plain(lambda data: read_breaker_record(breaker_key("acme", "openai"), data)),
        (RouterError,),
    ),
    "admin request": Decoder(
        _seeds({"tenant_id": "acme", "policy_id": "default", "api_key": "a key"}, b""),
        DOOR.open,
        (ServiceError,),
    ),
    "bus envelope": Decoder(
        _seeds(envelope_bytes(an_envelope())),
        _plain(lambda data: (extract_envelope_ids(data), read_bus_envelope(data))),
        (Malformed,),
    ),
    "agent envelope": Decoder(
        _seeds(a_command(a=1), headers=CONTRACT),
        _message(read_agent_envelope, "cmd.x"),
        (Malformed,),
    ),
    "inbox event": Decoder(
        _seeds(
            {"a": 1},
            headers={
                "Event-Type": "thing_made",
                "Occurred-At": "2026-01-02T03:04:05Z",
                "Nats-Msg-Id": "m",
            },
        ),
        _message(read_event, "vibespro.event.thing_made.v1"),
        (),
        _is_fault,
    ),
    "dead letter": Decoder(
        _seeds(
            a_dead_letter().data,
            a_dead_letter(a_failed_message(b"\xff")).data,
            a_result().data,
            headers=CONTRACT,
        ),
        _letter,
    ),
    "dead letter, exported": Decoder(
        _seeds(a_dead_letter().data),
        lambda data, headers: dump_json(as_full_fields(_letter(data, headers))),
    ),
    "payload, shown and edited": Decoder(
        _seeds(RICH, b"\xff"), lambda data, _: (format_bytes(data), opened_in_an_editor(data))
    ),
    "message of the bus, shown": Decoder(
        _seeds(envelope_bytes(an_envelope())), lambda data, _: tail_line(a_stored_dead_letter(data))
    ),
    "advisory": Decoder(
        _seeds({"stream_seq": 7, "stream": "S", "consumer": "c"}),
        _plain(stranded_sequence),
        (),
        lambda came: came is None,
    ),
    "header block": Decoder(
        _seeds(
            head_of(CONTRACT),
            b"NATS/1.0 503\r\n\r\n",
            b"NATS/1.0 100 Idle Heartbeat\r\nA:  b\r\n\r\n",
        ),
        _head,
    ),
    "usage event, as the lake reads it": Decoder(
        _seeds(USAGE, {**USAGE, "cost": 1e-12}), _sifted, (), lambda events: events == 0
    ),
}
