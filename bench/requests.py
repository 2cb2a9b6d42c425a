"""The request that every side is asked: about 300 bytes of JSON and four headers; a number makes it
a new one.
"""

from __future__ import annotations

from router.delivery.wire.connection import head_of

TENANT = "acme"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
USERS = 1000  # sessions that the requests belong to
TEXT = "Hello there, what is the weather like in Lisbon this afternoon?"

_BODY = (
    '{"version":"1","request_id":"r-%d","tenant_id":"acme","policy_id":"default","message":{"message_id":"m-%d",'
    '"message_type":"chat","payload":"%s",'
    '"metadata":{"source":"gateway"}},"context":{"user_id":"user-%d","lang":"en"}}'
)
_HEAD = head_of(
    {"trace_id": TRACE, "tenant_id": TENANT, "version": "1", "Nats-Msg-Id": "m-%d"}
).decode()


_BROKEN_HEAD = head_of(
    {"trace_id": "two words", "tenant_id": TENANT, "traceparent": "none", "Nats-Msg-Id": "m-%d"}
).decode()


def body(number: int, users: int = USERS, payload: str = TEXT) -> bytes:
    return (_BODY % (number, number, payload, number % users)).encode()


def add_push(body: bytes) -> bytes:
    """The same request, with an assignment for a worker."""
    return b'{"push_assignment":true,' + body[1:]


def poisoned(number: int) -> bytes:
    """The same request without its text: it can never be decided."""
    return body(number).replace(b'"payload":', b'"pay_load":')


def text_of(size: int) -> str:
    """A payload of so many bytes."""
    return (TEXT * (size // len(TEXT) + 1))[:size]


def head(number: int) -> bytes:
    """The block of headers: trace_id, tenant_id, version, Nats-Msg-Id."""
    return (_HEAD % number).encode()


def broken_head(number: int) -> bytes:
    """As many headers, which break two rules of the contract: trace_id and traceparent."""
    return (_BROKEN_HEAD % number).encode()


def answer_fields(request_id: str, trace_id: str) -> dict[str, object]:
    """What a yardstick answers: as many fields as the router's answer has, always the same
    decision.
    """
    return {
        "ok": True,
        "decision": {
            "provider_id": "openai",
            "reason": "weighted",
            "priority": 50,
            "expected_latency_ms": 800,
            "expected_cost": 0.012,
            "metadata": {"policy_id": "default", "policy_version": "1"},
        },
        "context": {"request_id": request_id, "trace_id": trace_id},
    }
