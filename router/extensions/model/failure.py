"""Failures of extensions and providers: the codes for what gave no valid answer
(docs/reference/contracts.md#errors), and why a provider gave no output.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from router.contracts.extension import (
    FAULT,
    RETRY_AFTER,
    SERVICE_ERROR,
    SERVICE_ERROR_CODE,
    InvalidExtensionMessage,
    read_retry_after,
)
from router.contracts.failure_class import FailureClass, classify_number
from router.contracts.provider import ERROR, TIMEOUT, ProviderResponse, refuse
from router.contracts.provider_request import ProviderRequest
from router.core.errors import (
    BrokerUnavailable,
    CallTimeout,
    ConnectionLost,
    NoResponders,
    Poison,
    RouterError,
    StreamOverrun,
)

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


# -- Why a provider gave no output, as a response or a stream's last chunk reports it: `status`,
# `error_code`, and whose fault it was.
#
#     extension_timeout       status timeout     no answer in time
#     extension_unavailable   status error       no responders, its breaker open, the broker
#                                                unavailable
#     extension_error         status error       metadata.fault: request (it or its answer is too
#                                                large, or a number of the class
#                                                request), rate_limit (429), service (any other
#                                                number), answer (no such answer)
#     stream_overrun          status error       the stream came faster than this router read it
#     budget_exceeded         status error       a budget of the tenant has no room for it, or for
#                                                more of it; metadata say which
#     overloaded              status error       what it does could not be billed now
#     extension_not_found     status error       not in the registry, or not for this tenant
#
# Codes and classes are those of every extension (`failure`, `invoke`); here are the ways that
# only a stream has to fail.


def make_not_found(request: ProviderRequest) -> ExtensionFailure:
    return ExtensionFailure(
        EXTENSION_NOT_FOUND,
        f"no provider {request.provider_id} is registered for this tenant",
        "refused",
        counted_as=CountedAs.NOTHING,
        was_sent=False,
    )


def make_limited(left_ms: int) -> ExtensionFailure:
    """It limits the tenant since an earlier answer, so it is not asked."""
    return ExtensionFailure(
        EXTENSION_ERROR,
        f"the provider limits this tenant for {left_ms} ms more",
        "limited",
        counted_as=CountedAs.NOTHING,
        was_sent=False,
        fault=RATE_LIMITS,
        retry_after_ms=left_ms,
    )


def caller_deadline_failure(left_s: float) -> ExtensionFailure:
    """The caller's time was over: not the provider's fault."""
    text = f"no answer within the {left_s * 1000:.0f} ms that were left"
    return ExtensionFailure(EXTENSION_TIMED_OUT, text, "late", counted_as=CountedAs.NOTHING)


def make_too_large() -> ExtensionFailure:
    """An answer fits, and what the router makes of it does not: a tenant may ask for one, so it is
    not the provider's failure.
    """
    text = "the answer is larger than the server takes"
    return ExtensionFailure(EXTENSION_ERROR, text, "refused", counted_as=CountedAs.NOTHING)


def failure_of(exc: RouterError) -> ExtensionFailure:
    """The failure that an error of a stream or a call means."""
    match exc:
        case ExtensionFailure():
            return exc
        case CallTimeout():
            return ExtensionFailure(EXTENSION_TIMED_OUT, str(exc), "timeout", is_passing=True)
        case NoResponders():
            return make_unavailable()
        case BrokerUnavailable():
            return ExtensionFailure(
                EXTENSION_UNAVAILABLE,
                str(exc),
                "unavailable",
                is_passing=True,
                counted_as=CountedAs.NOTHING,
                was_sent=is_sent(exc),
            )
        case StreamOverrun():
            return ExtensionFailure(exc.code, str(exc), "overrun", counted_as=CountedAs.NOTHING)
        case InvalidExtensionMessage():
            return ExtensionFailure(EXTENSION_ERROR, str(exc), "error")
        # a request that the server does not take: the asker's fault, or every tenant could close a
        # provider to all
        case _:
            return ExtensionFailure(
                EXTENSION_ERROR,
                str(exc),
                "refused",
                counted_as=CountedAs.NOTHING,
                was_sent=not isinstance(exc, Poison),
            )


def check_refused(headers: Mapping[str, str]) -> None:
    """Raises ExtensionFailure for a piece that is an error by the NATS service protocol."""
    told = headers.get(SERVICE_ERROR_CODE)
    if told is None and SERVICE_ERROR not in headers:
        return
    message = f"it answered {told}: {headers.get(SERVICE_ERROR, '')}"[:200]
    if told is None or len(told) != 3 or not told.startswith("4") or not told.isdigit():
        raise _make_service_failure(message)
    raise make_refused(
        message,
        find_fault(int(told), headers.get(FAULT)),
        read_retry_after(headers),
        is_providers=True,
    )


def read_failure(metadata: Mapping[str, str]) -> ExtensionFailure:
    """The failure that a provider's own last chunk reports; its code is for people, `fault` says
    whose fault it was.
    """
    message = f"it said {metadata.get('error_code', ERROR)}: {metadata.get('error_message', '')}"[
        :200
    ]
    fault = metadata.get("fault")
    if fault not in (REQUESTS, RATE_LIMITS, ANSWERS):
        return _make_service_failure(message)
    return make_refused(
        message, fault, read_retry_after({RETRY_AFTER: metadata.get("retry_after_ms", "")})
    )


def _make_service_failure(message: str) -> ExtensionFailure:
    """The service's own trouble."""
    return ExtensionFailure(EXTENSION_ERROR, message, "error", is_passing=True)


def status_of(failure: ExtensionFailure) -> str:
    return TIMEOUT if failure.code == EXTENSION_TIMED_OUT else ERROR


def chunk_metadata(failure: ExtensionFailure) -> dict[str, str]:
    """The failure as metadata of a last chunk."""
    return {
        "status": status_of(failure),
        "error_code": failure.code,
        "error_message": str(failure),
        **_fault(failure),
    }


def failed_response(
    request: ProviderRequest, failure: ExtensionFailure, latency_ms: float
) -> ProviderResponse:
    status, metadata = status_of(failure), _fault(failure)
    return refuse(
        request.request_id,
        failure.code,
        str(failure),
        status=status,
        metadata=metadata,
        latency_ms=latency_ms,
    )


def _fault(failure: ExtensionFailure) -> dict[str, str]:
    if isinstance(failure, InvocationRefused):
        return dict(failure.details)
    if failure.code != EXTENSION_ERROR:
        return {}
    fault = failure.fault or (
        REQUESTS if not failure.is_callees else SERVICES if failure.is_passing else ANSWERS
    )
    after = (
        {} if failure.retry_after_ms is None else {"retry_after_ms": str(failure.retry_after_ms)}
    )
    return {"fault": fault, **after}
