"""What the router's own readers say of a message: whether they take it. No header stands beside it."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from router.contracts import provider_request
from router.contracts.acknowledgement import read_acknowledgement
from router.contracts.envelope import read_envelope
from router.contracts.extension import read_processor_answer, read_validator_answer
from router.contracts.heartbeat import read_heartbeat
from router.contracts.ingress import read_body_of, read_ingress
from router.contracts.provider_call import read_answer
from router.contracts.provider_chunk import read_chunk
from router.contracts.result import read_result
from router.contracts.unread_report import read_unread_report
from router.contracts.worker import WorkerMessageLimits
from router.core.errors import Poison, RouterError
from router.core.message import Message
from router.core.outcome import Fault
from router.decide.model.read import read as read_decide
from tests.support.requests import a_message

STORED_NS = 1_700_000_000_000_000_000
# what no schema can say: near the time of storing
ANY_TIME = WorkerMessageLimits(max_timestamp_age_ms=2**64, max_timestamp_ahead_ms=2**64)


def _read(data: bytes, read: Callable[[Message], Any]) -> bool:
    return not isinstance(read(a_message(data, stored_ns=STORED_NS)), Fault)


def _is_taken(read: Callable[[bytes], object]) -> Callable[[bytes], bool]:
    """Whether a reader that raises takes it."""

    def is_taken(data: bytes) -> bool:
        try:
            return read(data) is not None
        except RouterError:
            return False

    return is_taken


def _read_ingress(data: bytes) -> object:
    """As the service does: what it would store in the decide stream must be readable there."""
    request = read_ingress(read_body_of(data, ANY_TIME), {})
    found = read_decide(a_message(request.body, request.headers)).asked
    if isinstance(found, Fault):
        raise Poison(found.message)
    return found


def _read_own_answer(data: bytes) -> object:
    """The answer of the provider that it names, if it names one."""
    named = orjson.loads(data).get("provider_id")
    return read_answer(data, named if isinstance(named, str) else "echo")


READERS: Mapping[str, Callable[[bytes], bool]] = {
    "decide": lambda data: _read(data, lambda message: read_decide(message).asked),
    "result": lambda data: _read(data, lambda message: read_result(message, ANY_TIME).found),
    "ack": lambda data: _read(data, lambda message: read_acknowledgement(message).found),
    "heartbeat": lambda data: not isinstance(read_heartbeat(data, STORED_NS // 1_000_000), Fault),
    "extension-message": _is_taken(read_processor_answer),
    "extension-verdict": _is_taken(read_validator_answer),
    "provider-request": _is_taken(lambda data: provider_request.read_request(data, {})),
    "chunk": _is_taken(read_chunk),
    "provider-answer": _is_taken(_read_own_answer),
    "ingress": _is_taken(_read_ingress),
    "envelope": _is_taken(read_envelope),
    "unread-report": _is_taken(read_unread_report),
}


def is_readable(name: str, message: object) -> bool:
    return READERS[name](orjson.dumps(message))
