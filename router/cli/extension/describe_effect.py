"""Describe in one line what the router does with an extension's answer."""

from __future__ import annotations

import orjson


def describe_effect(kind: str, extension_id: str, answer: bytes) -> str:
    """Read the answer with the router's own readers. An answer that it cannot read is `extension_error`."""
    from router.core.errors import RouterError

    try:
        match kind:
            case "validator":
                return _describe_validator(answer)
            case "provider":
                return _describe_provider(extension_id, answer)
            case _:
                return _describe_processor(kind, answer)
    except RouterError as exc:
        return f"extension_error, not tried again: {exc}"


def _describe_processor(kind: str, answer: bytes) -> str:
    from router.contracts.extension import read_processor_answer

    changed = read_processor_answer(answer)
    names = ", ".join(changed.metadata) or "nothing"
    if kind == "post":
        return f"the decision's metadata gains {names}; nothing else of it changes"
    return f"the payload is now {orjson.dumps(changed.message.payload, default=repr).decode()[:200]}; the context gains {names}"


def _describe_validator(answer: bytes) -> str:
    from router.contracts.extension import read_validator_answer

    judged = read_validator_answer(answer)
    if judged.is_ok:
        return "the request goes on"
    return f"validator_blocked, reason {judged.reason}, where the policy says on_fail: block; it goes on with warn and ignore"


def _describe_provider(extension_id: str, answer: bytes) -> str:
    from router.contracts.provider_call import read_answer

    read = read_answer(answer, extension_id)
    details = ", ".join(f"{name} {value}" for name, value in read.metadata.items())
    return f"success, cost {read.cost:g}" + (f", {details}" if details else "")
