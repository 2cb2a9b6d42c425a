"""What the router's own readers say of a message: whether they take it. No header stands beside it."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from router.contracts.ack import read_ack
from router.contracts.result import read_result
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message
from router.core.outcome import Fault
from router.routing.decide.read import read as read_decide
from tests.support.requests import a_message

STORED_NS = 1_700_000_000_000_000_000
ANY_TIME = WorkerMessageLimits(max_timestamp_age_ms=2**64, max_timestamp_ahead_ms=2**64)  # what no schema can say: near the time of storing


def _read(data: bytes, read: Callable[[Message], Any]) -> bool:
    return not isinstance(read(a_message(data, stored_ns=STORED_NS)), Fault)


READERS: Mapping[str, Callable[[bytes], bool]] = {
    "decide": lambda data: _read(data, lambda message: read_decide(message).asked),
    "result": lambda data: _read(data, lambda message: read_result(message, ANY_TIME).found),
    "ack": lambda data: _read(data, lambda message: read_ack(message).found),
}


def is_readable(name: str, message: object) -> bool:
    return READERS[name](orjson.dumps(message))
