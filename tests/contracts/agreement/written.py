"""Messages as the router writes them, from random legal content: each must be valid, and its reader must take it."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from router.contracts.answer import build_hint_warning, build_skipped_warning, failure, success, success_with
from router.contracts.assignment import assignment_bytes, assignment_id_of
from router.contracts.codes import read_codes
from router.contracts.decision import Decision, SkippedAssignment
from router.contracts.request import RouteRequest
from router.contracts.result import MAX_LATENCY_MS, RESULT_STATUSES
from router.contracts.usage import UsageEvent, usage_bytes

IDS = ("r-1", "x" * 128, "~", "4bf92f3577b34da6a3ce929d0e0e4736")
TENANTS = ("acme", "a:b.c-d_e", "9" * 128)
TYPES = ("chat", "t" * 256, "é ü")
PAYLOADS = ("hello", b"\xff\x00", b"hello", {"text": ["a", None]}, None, 0, 1.5, True, [])
CODES = [code.code for code in read_codes().values() if "answer" in code.kinds]


def write_answer(chance: random.Random) -> bytes:
    trace = chance.choice((None, *IDS))
    match chance.randrange(3):
        case 0:
            return success(_decision(chance), chance.choice(IDS), trace)
        case 1:
            warnings = [build_hint_warning("polcy_id", "policy_id"), build_skipped_warning(SkippedAssignment("assignment_disabled", "off"))]
            return success_with(warnings[: chance.randrange(3)], _decision(chance), chance.choice(IDS), trace)
        case _:
            details = chance.choice((None, {}, {"field": "message.tenant_id"}, {"cause": "tenant_share", "retry_after_ms": 20}))
            return failure(chance.choice(CODES), "why", details, chance.choice((None, *IDS)), trace)


def write_assignment(chance: random.Random) -> bytes:
    workflow = {name: chance.choice(IDS) for name in ("run_id", "flow_id", "step_id")} if chance.random() < 0.5 else {}
    request = RouteRequest(
        tenant_id=chance.choice(TENANTS),
        message_type=chance.choice(TYPES),
        payload=chance.choice(PAYLOADS),
        payload_ref=chance.choice((None, "s3://x")),
        request_key="k",
        answer_id=chance.choice(IDS),
        trace_id=chance.choice((None, *IDS)),
        metadata=chance.choice(({}, {"a": [1]})),
        **workflow,
    )
    return assignment_bytes(assignment_id_of(request.tenant_id, request.answer_id), request, _decision(chance))


def write_usage(chance: random.Random) -> bytes:
    event = UsageEvent(
        tenant_id=chance.choice(TENANTS),
        provider_id=chance.choice(("openai", "p" * 128)),
        event_type=chance.choice(TYPES),
        latency_ms=chance.choice((0, 1, MAX_LATENCY_MS)),
        cost=chance.choice((0.0, 1e-7, 0.1, 1e9)),
        status=chance.choice(sorted(RESULT_STATUSES)),
        timestamp=chance.choice((0, 1_700_000_000_000)),
        trace_id=chance.choice((None, *IDS)),
        assignment_id=chance.choice(IDS),
        request_id=chance.choice((None, *IDS)),
        is_correlated=chance.random() < 0.5,
    )
    return usage_bytes(event)


def _decision(chance: random.Random) -> Decision:
    metadata: dict[str, str] = {"policy_id": chance.choice(TENANTS), "policy_version": str(chance.randrange(1, 100))}
    if chance.random() < 0.3:
        metadata["executed_extensions"] = "[]"
    latency, cost = chance.choice((0, 0.5, 800, 1e12)), chance.choice((0, 0.012, 1e9))
    return Decision(chance.choice(("openai", "p")), chance.choice(("weighted", "sticky")), chance.randrange(100), latency, cost, metadata)


WRITERS: Mapping[str, Callable[[random.Random], Any]] = {"answer": write_answer, "assignment": write_assignment, "usage": write_usage}
