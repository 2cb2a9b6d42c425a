"""The codes for an extension that gave no valid answer (docs/reference/contracts.md#errors)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from router.contracts.failure_class import FailureClass, classify_number
from router.core.errors import BrokerUnavailable, ConnectionLost, RouterError

# not registered, disabled, or no version for this request
EXTENSION_NOT_FOUND = "extension_not_found"
EXTENSION_TIMED_OUT = "extension_timeout"
EXTENSION_UNAVAILABLE = "extension_unavailable"  # no service listens, or its breaker is open
EXTENSION_ERROR = "extension_error"  # it answered with an error, or with an invalid answer
DEADLINE_EXCEEDED_FAILURE = "deadline_exceeded"  # the pipeline's own time was over


class CountedAs(Enum):
    """What a failure is to the breaker and the health of its service."""

    # The extension's fault: both count it.
    FAILURE = "failure"
    # The same, and the tenant may have caused it: it closes the service to that tenant alone.
    TENANTS_FAILURE = "tenants_failure"
    # The service worked, and its answer was an error of the request (4xx): to health a success.
    ANSWER = "answer"
    NOTHING = "nothing"


class ExtensionFailure(RouterError):
    """`code` is one of the above, or `stream_overrun`. `status` goes to the meter.

    `is_passing`: the same call may succeed soon. `was_sent`: an attempt may have reached the
    service. `fault`: whose it was, for the tenant that asked (below), where the others do not say.
    """

    def __init__(
        self,
        code: str,
        message: str,
        status: str,
        *,
        is_passing: bool = False,
        counted_as: CountedAs = CountedAs.FAILURE,
        was_sent: bool = True,
        fault: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_passing = is_passing
        self.counted_as = counted_as
        self.was_sent = was_sent
        self.fault = fault
        self.retry_after_ms = retry_after_ms

    @property
    def is_callees(self) -> bool:
        return self.counted_as in (CountedAs.FAILURE, CountedAs.TENANTS_FAILURE)

    @property
    def is_answer(self) -> bool:
        return self.counted_as is CountedAs.ANSWER

    @property
    def is_tenants(self) -> bool:
        return self.counted_as is CountedAs.TENANTS_FAILURE


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
        counted_as=CountedAs.TENANTS_FAILURE if is_failure else CountedAs.ANSWER,
        fault=fault,
        retry_after_ms=retry_after_ms if fault == RATE_LIMITS else None,
    )


class InvocationRefused(ExtensionFailure):
    """The router does not ask the provider, or no longer; no fault of the provider's. `details`
    reach the asker.
    """

    def __init__(
        self, code: str, message: str, details: Mapping[str, str], *, was_sent: bool = False
    ) -> None:
        super().__init__(code, message, "refused", counted_as=CountedAs.NOTHING, was_sent=was_sent)
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
        counted_as=CountedAs.NOTHING,
    )
