"""A worker's handler that answers an assignment by invoking its provider through the router: the
circle, with no other system.

    async with Client(url) as client:
        await Worker(url, ProviderHandler(client), worker_id="providers-1").run()

What the provider is asked: the assignment's payload, as it is where it is text; an object's
`prompt`, `parameters`, `context` where it has a `prompt`; else its JSON. Instance and response are
found by the assignment's id, so a second attempt asks the same service.

The result for each outcome; its code says whose fault it was
(docs/reference/contracts.md#failure-classes), never its text:

    success                                            ok, the response's body as output
    extension_timeout                                  timeout     TIMEOUT
    extension_unavailable, breaker open, none there    error       PROVIDER_UNAVAILABLE, worth
                                                       another attempt
    the provider's own error, or garbage from it       error       SERVER_ERROR; an error of its own
                                                       is worth another attempt
    it refused the request                             error       REQUEST_REFUSED
    it limits the tenant (429)                         error       RATE_LIMITED, with the time that
                                                       it told
    not registered                                     error       PROVIDER_NOT_FOUND: nothing comes
                                                       from it, so it is not preferred
    refused by the router as no good request           error       REQUEST_REFUSED
    the router is overloaded, or there is none         error       NOT_ASKED, worth another attempt
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

from router.contracts.exec_assignment import ExecAssignment
from router.contracts.extension import RETRY_AFTER, read_retry_after
from router.contracts.failure_class import NOT_ASKED, RATE_LIMITED, REQUEST_REFUSED
from router.contracts.provider import ProviderResponse
from router.contracts.result import MAX_LATENCY_MS
from router.core.errors import RouterError
from router.sdk.step import ERROR, TIMEOUT, StepResult, build_failure

if TYPE_CHECKING:
    from router.sdk.client import Client

PROVIDER_TIMED_OUT = "TIMEOUT"
UNAVAILABLE = "PROVIDER_UNAVAILABLE"
PROVIDER_FAILED = "SERVER_ERROR"
NOT_FOUND = "PROVIDER_NOT_FOUND"

_CODES: Mapping[str | None, str] = {"request": REQUEST_REFUSED, "rate_limit": RATE_LIMITED}
# the router's own trouble: no fault of the provider's, and it may pass
_AGAIN = frozenset({"overloaded", "internal"})


class ProviderHandler:
    """`client` must stay open as long as the worker works."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, assignment: ExecAssignment) -> StepResult:
        prompt, parameters, context = _prompt_of(assignment)
        try:
            response = await self._client.invoke(
                tenant_id=assignment.tenant_id,
                provider_id=assignment.provider_id,
                prompt=prompt,
                parameters=parameters,
                context={**context, **_context_of(assignment)},
                request_id=assignment.assignment_id,
                trace_id=assignment.trace_id,
                timeout=assignment.deadline_ms / 1000,
            )
        except RouterError as exc:  # no router serves providers, or the broker is unavailable
            return build_failure(NOT_ASKED, str(exc), is_retriable=True)
        return step_of(response)


def step_of(response: ProviderResponse) -> StepResult:
    """The worker's result for this response, by the table above."""
    if response.ok:
        return StepResult(output=response.body, cost=response.cost, metadata=response.metadata)
    status, code, is_retriable = _classify(response)
    return StepResult(
        status=status,
        error_code=code,
        error_message=response.error_message,
        metadata={**response.metadata, "cause": response.error_code},
        is_retriable=is_retriable,
        retry_after_ms=_read_retry_after(response) if code == RATE_LIMITED else None,
    )


def _classify(response: ProviderResponse) -> tuple[str, str, bool]:
    """Status, error code, and whether another attempt may succeed."""
    fault = response.metadata.get("fault")
    match response.error_code:
        case "extension_timeout":
            return TIMEOUT, PROVIDER_TIMED_OUT, False
        case "extension_unavailable":
            return ERROR, UNAVAILABLE, True
        case "extension_error":
            return ERROR, _CODES.get(fault, PROVIDER_FAILED), fault == "service"
        case "extension_not_found":
            return ERROR, NOT_FOUND, False
        case code:
            return (ERROR, NOT_ASKED, True) if code in _AGAIN else (ERROR, REQUEST_REFUSED, False)


def _read_retry_after(response: ProviderResponse) -> int | None:
    told = read_retry_after({RETRY_AFTER: response.metadata.get("retry_after_ms", "")})
    return min(told, MAX_LATENCY_MS) if told is not None else None


def _prompt_of(
    assignment: ExecAssignment,
) -> tuple[str | bytes, Mapping[str, object], Mapping[str, object]]:
    payload = assignment.payload
    if isinstance(payload, str | bytes):
        return payload, {}, {}
    if isinstance(payload, dict) and isinstance(prompt := payload.get("prompt"), str):
        return prompt, _object(payload.get("parameters")), _object(payload.get("context"))
    return orjson.dumps(payload).decode() if payload is not None else "", {}, {}


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _context_of(assignment: ExecAssignment) -> dict[str, object]:
    """Context about the job for the provider; a payload that is stored elsewhere is named here."""
    about = {
        "assignment_id": assignment.assignment_id,
        "request_id": assignment.request_id,
        "job_type": assignment.job_type,
        "payload_ref": assignment.payload_ref,
    }
    return {name: value for name, value in about.items() if value is not None}
