"""What must be true of an answer. Each raises AssertionError that says what was answered instead."""

from __future__ import annotations

from router.contracts.decision import Decision, Refusal
from router.sdk.answer import Answer


def assert_decided(
    answer: Answer, *, provider_id: str | None = None, reason: str | None = None, **metadata: str
) -> Decision:
    """Return the decision; with this provider, this reason and this metadata, where they are given."""
    if answer.decision is None:
        raise AssertionError(f"it was not decided: {_describe(answer)}")
    wanted = {"provider_id": provider_id, "reason": reason, **metadata}
    decision = answer.decision
    had = {"provider_id": decision.provider_id, "reason": decision.reason}
    for name, value in wanted.items():
        found = had[name] if name in had else decision.metadata.get(name)
        if value is not None and found != value:
            raise AssertionError(
                f"{name} should be {value!r} and is {found!r}: {_describe(answer)}"
            )
    return decision


def assert_refused(answer: Answer, code: str) -> Refusal:
    """Return the refusal, which has this code (`router explain CODE`)."""
    if answer.error is None or answer.error.code != code:
        raise AssertionError(f"it should be refused as {code!r}: {_describe(answer)}")
    return answer.error


def _describe(answer: Answer) -> str:
    return answer.raw[:2000].decode(errors="replace") if answer.raw else repr(answer)
