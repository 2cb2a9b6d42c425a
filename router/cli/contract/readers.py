"""The reader of each message of the contract, and what it says of bytes: nothing, or what is wrong with them.

decide, result, ack     the router's readers, with the limits of the settings; a Fault names the field
assignment, answer      the readers of the SDK, as a worker and a client have them
usage                   the lake's reader
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from router.app.subscriptions import worker_limits
from router.config import Settings
from router.contracts.ack import read_ack
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.headers import Violation
from router.contracts.request import NO_HINTS
from router.contracts.result import read_result
from router.contracts.worker import WorkerMessageLimits
from router.core.clock import now_ms
from router.core.errors import RouterError
from router.core.message import Message
from router.core.outcome import Fault
from router.lake.tables.body import ANY_BOUNDS, find_reason, read_event
from router.routing.decide import RequestLimits
from router.routing.decide.read import read as read_request
from router.sdk.answer import read_answer


class ReaderVerdict(Struct, frozen=True):
    """`fault` is None where the reader takes the message. `hints`: unknown fields, and what was probably meant."""

    fault: Fault | None
    violations: tuple[Violation, ...] = ()
    hints: Mapping[str, str] = NO_HINTS


Reader = Callable[[bytes, Mapping[str, str]], ReaderVerdict]


def build_readers(settings: Settings) -> Mapping[str, Reader]:
    """The readers of a router with these settings."""
    limits = RequestLimits(
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        assignment_subjects=settings.assignment.subjects,
        strict=settings.contract.mode == "strict",
        refuses_control_headers=settings.reply.confirm == "decision",
    )
    return {
        "decide": lambda data, headers: _read_decide(_build_message(data, headers), limits),
        "result": _build_worker_reader(read_result, worker_limits(settings)),
        "ack": _build_worker_reader(read_ack, worker_limits(settings)),
        "assignment": _build_raising_reader(read_exec_assignment),
        "answer": _build_raising_reader(read_answer),
        "usage": lambda data, _: _read_usage(data),
    }


def _read_decide(message: Message, limits: RequestLimits) -> ReaderVerdict:
    reading = read_request(message, limits)
    if isinstance(reading.asked, Fault):
        return ReaderVerdict(reading.asked, reading.violations, reading.hints)
    return ReaderVerdict(None, reading.violations, reading.asked.hints)


def _build_worker_reader(read: Callable[[Message, WorkerMessageLimits], Any], limits: WorkerMessageLimits) -> Reader:
    def read_verdict(data: bytes, headers: Mapping[str, str]) -> ReaderVerdict:
        result = read(_build_message(data, headers), limits)
        return ReaderVerdict(result.found if isinstance(result.found, Fault) else None, result.violations)

    return read_verdict


def _build_raising_reader(read: Callable[[bytes], object]) -> Reader:
    def read_verdict(data: bytes, _: Mapping[str, str]) -> ReaderVerdict:
        try:
            read(data)
        except RouterError as exc:
            return ReaderVerdict(Fault(exc.code, str(exc), getattr(exc, "field", None)))
        return ReaderVerdict(None)

    return read_verdict


def _read_usage(data: bytes) -> ReaderVerdict:
    stored_ms = now_ms()
    if read_event(data, stored_ms, ANY_BOUNDS) is not None:
        return ReaderVerdict(None)
    reason, _, name = find_reason(data, stored_ms, ANY_BOUNDS).partition(":")
    return ReaderVerdict(Fault(reason, f"The lake keeps it apart as {reason}", name or None))


def _build_message(data: bytes, headers: Mapping[str, str]) -> Message:
    """The message as if it had been stored now."""
    stored_ns = now_ms() * 1_000_000
    return Message("", data, headers, "", "", 1, stored_ns, 1, "")
