"""The codes for an extension that gave no valid answer (docs/reference/contracts.md#errors)."""

from __future__ import annotations

from collections.abc import Mapping

from router.contracts.failure_class import FailureClass, classify_number
from router.core.errors import BrokerUnavailable, ConnectionLost, RouterError

# not registered, disabled, or no version for this request
EXTENSION_NOT_FOUND = "extension_not_found"
EXTENSION_TIMED_OUT = "extension_timeout"
EXTENSION_UNAVAILABLE = "extension_unavailable"  # no service listens, or its breaker is open
EXTENSION_ERROR = "extension_error"  # it answered with an error, or with an invalid answer
DEADLINE_EXCEEDED_FAILURE = "deadline_exceeded"  # the pipeline's own time was over


class ExtensionFailure(RouterError):
    """`code` is one of the above, or `stream_overrun`. `status` goes to the meter; `is_passing`:
    the same call may succeed soon.

    `is_answer`: the service worked, and its answer was an error of the request (4xx). Health counts
    that as a success; a failure that is neither the extension's fault nor an answer is not counted
    at all. `was_sent`: an attempt may have reached the service. `fault`: whose it was, for the
    tenant that asked (below), where the others do not say it. `is_tenants`: the tenant may have
    caused it, so it closes the service to that tenant alone.
    """

    def __init__(
        self,
        code: str,
        message: str,
        status: str,
        *,
        is_passing: bool = False,
        is_callees: bool = True,
        is_answer: bool = False,
        was_sent: bool = True,
        fault: str | None = None,
        retry_after_ms: int | None = None,
        is_tenants: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_passing = is_passing
        self.is_callees = is_callees  # the extension's fault: its breaker and its health count it
        self.is_answer = is_answer
        self.was_sent = was_sent
        self.fault = fault
        self.retry_after_ms = retry_after_ms
        self.is_tenants = is_tenants


# metadata.fault of an extension_error
REQUESTS, SERVICES, ANSWERS, RATE_LIMITS = "request", "service", "answer", "rate_limit"
_FAULTS = {FailureClass.REQUEST: REQUESTS, FailureClass.RATE_LIMIT: RATE_LIMITS}


def find_fault(code: int, told: str | None) -> str:
    """Whose fault an error with this number is: as the service says it, else by the table of
    classes.
    """
    return (
        told
        if told in (REQUESTS, SERVICES, RATE_LIMITS, ANSWERS)
        else _FAULTS.get(classify_number(code), SERVICES)
    )


def make_refused(
    message: str, fault: str, retry_after_ms: int | None = None, *, is_providers: bool = False
) -> ExtensionFailure:
    """A 4xx, or what a last chunk says: an answer in good order. `fault` says what it is to the
    tenant that asked.

    `is_providers`: of a provider, which fails each call of a tenant whose key is not valid: that
    tenant's breaker counts it.
    """
    is_failure = is_providers and fault in (SERVICES, ANSWERS)
    return ExtensionFailure(
        EXTENSION_ERROR,
        message,
        "error" if is_failure else "refused",
        is_callees=is_failure,
        is_answer=not is_failure,
        fault=fault,
        retry_after_ms=retry_after_ms if fault == RATE_LIMITS else None,
        is_tenants=is_failure,
    )


class InvocationRefused(ExtensionFailure):
    """The router does not ask the provider, or no longer; no fault of the provider's. `details`
    reach the asker.
    """

    def __init__(
        self, code: str, message: str, details: Mapping[str, str], *, was_sent: bool = False
    ) -> None:
        super().__init__(code, message, "refused", is_callees=False, was_sent=was_sent)
        self.details = details


class ServiceDeadlineExceeded(ExtensionFailure):
    """The service answered 504: the time that it was given was over, and it stopped."""


def is_sent(exc: ExtensionFailure | BrokerUnavailable) -> bool:
    """Whether the call that raised this may have reached its service."""
    return exc.was_sent if isinstance(exc, ExtensionFailure) else isinstance(exc, ConnectionLost)


def make_unavailable() -> ExtensionFailure:
    """The server answered that there are no responders."""
    message = "no service listens on its subject"
    return ExtensionFailure(
        EXTENSION_UNAVAILABLE, message, "unavailable", is_passing=True, was_sent=False
    )


def short_timeout_failure(given_s: float) -> ExtensionFailure:
    """The caller gave less time than the registry allows: that is the caller's choice, and says
    nothing about the extension.
    """
    return ExtensionFailure(
        EXTENSION_TIMED_OUT,
        f"no answer within {given_s * 1000:.0f} ms",
        "late",
        is_passing=True,
        is_callees=False,
    )
