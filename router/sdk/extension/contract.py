"""The contract of every extension, in any language: requests, and what is expected of each answer.

    must      the router depends on it
    should    the router works without it; a warning

`router extension check` sends them. Nothing here knows how they are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.extension import DEADLINE, read_processor_answer, read_validator_answer
from router.contracts.provider_call import read_answer
from router.contracts.raw_json import RawJson, prompt_of, write_payload
from router.core.errors import RouterError
from router.extensions.model.entry import PROVIDER, VALIDATOR

CONCURRENT_CALLS = 16
CHECK_TENANT = "contract-check"
TRACE = "contract-check-1"
DECISION = {
    "provider_id": "check",
    "reason": "weighted",
    "priority": 50,
    "expected_latency_ms": 500,
    "expected_cost": 0.01,
    "metadata": {},
}


class Reaction(Struct, frozen=True):
    """An extension's answer; `code` is its Nats-Service-Error-Code."""

    data: bytes
    code: int | None = None
    error: str | None = None


Fault = str | None  # why it is not as it has to be; None: it is
Judge = Callable[[Reaction], Fault]


class ContractCase(Struct, frozen=True, kw_only=True):
    """One request and the expected answer; `times`: how many of them are sent at once."""

    name: str
    data: bytes
    judge: Judge
    headers: Mapping[str, str] = {}
    is_must: bool = True
    times: int = 1


def cases(
    kind: str, extension_id: str, payload: object, config: Mapping[str, object]
) -> tuple[ContractCase, ...]:
    """Every case for an extension of this kind; `payload`: one that it can handle."""
    whole = _request(kind, extension_id, payload, config)
    good, bad = _answers(kind, extension_id), _expect_decline
    bare = {
        name: value
        for name, value in whole.items()
        if name not in ("metadata", "context", "parameters", "trace_id")
    }
    headers = {"trace_id": TRACE, "tenant_id": CHECK_TENANT, DEADLINE: "1500"}
    return (
        ContractCase(name="answers a request", data=_json(whole), judge=good, headers=headers),
        ContractCase(
            name="ignores fields that it does not know",
            data=_json({**whole, "x_unknown": {"a": [1]}}),
            judge=good,
        ),
        ContractCase(name="does without optional fields", data=_json(bare), judge=good),
        ContractCase(
            name=f"answers {CONCURRENT_CALLS} requests at once",
            data=_json(whole),
            judge=good,
            times=CONCURRENT_CALLS,
        ),
        ContractCase(name="declines an empty body", data=b"", judge=bad),
        ContractCase(name="declines what is not JSON", data=b'{"tenant_id": ', judge=bad),
        ContractCase(name="declines what is not an object", data=b'["tenant_id"]', judge=bad),
        ContractCase(
            name="declines a request without tenant_id",
            data=_json(_omit(whole, "tenant_id")),
            judge=bad,
        ),
        *_build_misshapen(kind, whole),
        ContractCase(
            name="declines what nests too deep",
            data=_build_deep(kind, whole),
            judge=bad,
            is_must=False,
        ),
        ContractCase(
            name="declines what is too large",
            data=_build_large(kind, whole),
            judge=bad,
            is_must=False,
        ),
        ContractCase(
            name="does no work past the deadline",
            data=_json(whole),
            judge=_expect_refusal,
            headers={DEADLINE: "0"},
            is_must=False,
        ),
        ContractCase(name="still answers after all that", data=_json(whole), judge=good),
    )


def _request(
    kind: str, extension_id: str, payload: object, config: Mapping[str, object]
) -> dict[str, Any]:
    fields: dict[str, Any] = {"trace_id": TRACE, "tenant_id": CHECK_TENANT, "config": dict(config)}
    if kind == PROVIDER:
        prompt = (
            prompt_of(payload)
            if isinstance(payload, RawJson | str)
            else write_payload(payload).decode()
        )
        return {
            **fields,
            "provider_id": extension_id,
            "prompt": prompt,
            "parameters": {},
            "context": {},
        }
    message = {"message_id": "m-1", "message_type": "chat", "payload": payload, "metadata": {}}
    return {
        **fields,
        "payload": message,
        "metadata": {"policy_id": "default", "decision": DECISION},
    }


def _build_misshapen(kind: str, whole: Mapping[str, Any]) -> tuple[ContractCase, ...]:
    part = "prompt" if kind == PROVIDER else "payload"
    return (
        ContractCase(
            name=f"declines a request without {part}",
            data=_json(_omit(whole, part)),
            judge=_expect_decline,
        ),
        ContractCase(
            name=f"declines a {part} of another type",
            data=_json({**whole, part: 7}),
            judge=_expect_decline,
        ),
    )


def _answers(kind: str, extension_id: str) -> Judge:
    """Expect an answer that the router can read."""

    def judge(reaction: Reaction) -> Fault:
        if reaction.code is not None:
            return f"answered with error {reaction.code}: {reaction.error}"
        try:
            if kind == PROVIDER:
                read_answer(reaction.data, extension_id)
            else:
                (read_validator_answer if kind == VALIDATOR else read_processor_answer)(
                    reaction.data
                )
        except RouterError as exc:
            return str(exc)
        return None

    return judge


def _expect_decline(reaction: Reaction) -> Fault:
    if reaction.code is None:
        return "answered as if nothing were wrong; an error has the header Nats-Service-Error-Code"
    if not 400 <= reaction.code <= 499:
        return f"answered {reaction.code}, which is tried again; what can never succeed is 4xx"
    return None


def _expect_refusal(reaction: Reaction) -> Fault:
    return None if reaction.code is not None else "worked on a request whose caller no longer waits"


def _build_deep(kind: str, whole: Mapping[str, Any]) -> bytes:
    nested: object = "deep"
    for _ in range(100):
        nested = [nested]
    return _json(_with_payload(kind, whole, nested))


def _build_large(kind: str, whole: Mapping[str, Any]) -> bytes:
    return _json(_with_payload(kind, whole, "x" * (MAX_PAYLOAD_BYTES * 3 // 2)))


def _with_payload(kind: str, whole: Mapping[str, Any], payload: object) -> dict[str, Any]:
    if kind == PROVIDER:
        return {**whole, "prompt": payload}
    return {**whole, "payload": {**whole["payload"], "payload": payload}}


def _omit(whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in whole.items() if key != name}


def _json(value: object) -> bytes:
    return write_payload(value)
