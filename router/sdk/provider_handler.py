"""A worker's handler that answers an assignment by invoking its provider through the router: the circle, with no other system.

    async with Client(url) as client:
        await Worker(url, ProviderHandler(client), worker_id="providers-1").run()

What the provider is asked: the assignment's payload, as it is where it is text; an object's `prompt`, `parameters`, `context`
where it has a `prompt`; else its JSON. Instance and response are found by the assignment's id, so a second attempt asks the
same service.

The result for each outcome (provider breakers read the error code, never the text: docs/reference/extensions.md#provider-breaker):

    success                                            ok, the response's body as output
    extension_timeout                                  timeout     TIMEOUT
    extension_unavailable, breaker open, none there    error       PROVIDER_UNAVAILABLE, worth another attempt
    the provider's own error, or garbage from it       error       SERVER_ERROR; an error of its own is worth another attempt
    it refused the request (4xx)                       error       4XX, which no breaker counts
    not registered                                     error       PROVIDER_NOT_FOUND
    refused by the router, or no router                error       the worker's own codes: no fault of the provider's
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

from router.contracts.exec_assignment import ExecAssignment
from router.contracts.provider import ProviderResponse
from router.core.errors import RouterError
from router.sdk.step import ERROR, HANDLER_RAISED, TIMEOUT, StepResult, build_failure

if TYPE_CHECKING:
    from router.sdk.client import Client

PROVIDER_TIMED_OUT = "TIMEOUT"
UNAVAILABLE = "PROVIDER_UNAVAILABLE"
PROVIDER_FAILED = "SERVER_ERROR"
PROVIDER_REFUSED = "4XX"
NOT_FOUND = "PROVIDER_NOT_FOUND"

_AGAIN = frozenset({"overloaded", "internal"})  # the router's own trouble: no fault of the provider's, and it may pass


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
            return build_failure(HANDLER_RAISED, str(exc), is_retriable=True)
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
            return ERROR, PROVIDER_REFUSED if fault == "request" else PROVIDER_FAILED, fault == "service"
        case "extension_not_found":
            return ERROR, NOT_FOUND, False
        case code:
            return ERROR, HANDLER_RAISED, code in _AGAIN


def _prompt_of(assignment: ExecAssignment) -> tuple[str | bytes, Mapping[str, object], Mapping[str, object]]:
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
