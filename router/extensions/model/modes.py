"""How an extension's mode turns a failure, or a validator's rejection, into the pipeline's result;
and the outcome of each extension.

           fails                      rejects
required   pre|post_processor_failed  –                   block    validator_blocked
optional   warn, go on                –                   warn     warn, go on      (a validator
                                                          that fails
                                                          ignore   go on             is one that rejects)

`executed_extensions` of a decision lists the outcomes in order of time
(docs/reference/extensions.md#executed-extensions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from router.contracts.decision import DEADLINE_EXCEEDED, Refusal
from router.contracts.extension import ProcessorAnswer, ValidatorAnswer
from router.extensions.model.entry import POST, PRE, VALIDATOR
from router.extensions.model.failure import ExtensionFailure
from router.policies.model.policy import ExtensionUse

_TEXT = '{"type":"%s","id":"%s","status":"%s","latency_ms":%.3f}'
OK, ERROR, WARN, IGNORE, SKIPPED = "ok", "error", "warn", "ignore", "skipped"


class ExecutedExtension(Struct, frozen=True, gc=False):
    """`type`: pre | validator | post. `status`: ok; error where its mode ended the pipeline, else warn or ignore; skipped."""

    type: str
    id: str
    status: str
    latency_ms: float


def executed_fields(executed: Sequence[ExecutedExtension]) -> list[dict[str, object]]:
    """The outcomes as JSON fields; milliseconds with three decimals."""
    return [
        {
            "type": extension.type,
            "id": extension.id,
            "status": extension.status,
            "latency_ms": round(extension.latency_ms, 3),
        }
        for extension in executed
    ]


def executed_text(executed: Sequence[ExecutedExtension]) -> str:
    """Compact JSON text: a decision's metadata is all strings. Nothing in it needs escaping: ids
    are subject tokens.
    """
    return (
        "["
        + ",".join(
            [
                _TEXT % (extension.type, extension.id, extension.status, extension.latency_ms)
                for extension in executed
            ]
        )
        + "]"
    )


ExtensionResult = (
    ProcessorAnswer | dict[str, str] | ValidatorAnswer | ExtensionFailure
)  # of a pre-processor, a post-processor, a validator; why there is none of these

VALIDATION_REJECTED = "rejected"
PIPELINE_LATE = Refusal(
    DEADLINE_EXCEEDED, "The policy's time was over before its pipeline was through"
)

_CODES: Mapping[str, str] = {
    PRE: "pre_processor_failed",
    VALIDATOR: "validator_blocked",
    POST: "post_processor_failed",
}
_STATUS: Mapping[str, str] = {
    "required": ERROR,
    "optional": WARN,
    "block": ERROR,
    "warn": WARN,
    "ignore": IGNORE,
}


def status_of(use: ExtensionUse, came: ExtensionResult) -> str:
    if type(came) is ExtensionFailure or (type(came) is ValidatorAnswer and not came.is_ok):
        return _STATUS[use.mode]
    return OK


def refusal_of(kind: str, use: ExtensionUse, came: ExtensionFailure | ValidatorAnswer) -> Refusal:
    """The answer of a pipeline that ends here: `details` has cause, extension, reason, and a
    validator's details.

    Rule: docs/reference/contracts.md#errors.
    """
    cause, reason, details = (
        (came.code, str(came), None)
        if isinstance(came, ExtensionFailure)
        else (VALIDATION_REJECTED, came.reason or VALIDATION_REJECTED, came.details)
    )
    told: dict[str, object] = {"cause": cause, "extension": use.id, "reason": reason}
    return Refusal(
        _CODES[kind],
        f"{use.id}: {reason}",
        told if details is None else {**told, "details": details},
    )
