"""Why a provider gave no output, as a response or a stream's last chunk reports it: `status`,
`error_code`, and whose fault it was.

    extension_timeout       status timeout     no answer in time
    extension_unavailable   status error       no responders, its breaker open, the broker
                                               unavailable
    extension_error         status error       metadata.fault: request (it or its answer is too
                                               large, or a number of the class
                                               request), rate_limit (429), service (any other
                                               number), answer (no such answer)
    stream_overrun          status error       the stream came faster than this router read it
    budget_exceeded         status error       a budget of the tenant has no room for it, or for
                                               more of it; metadata say which
    overloaded              status error       what it does could not be billed now
    extension_not_found     status error       not in the registry, or not for this tenant

Codes and classes are those of every extension (`failure`, `invoke`); here are the ways that only a
stream has to fail.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.contracts.extension import (
    FAULT,
    RETRY_AFTER,
    SERVICE_ERROR,
    SERVICE_ERROR_CODE,
    InvalidExtensionMessage,
    read_retry_after,
)
from router.contracts.provider import ERROR, TIMEOUT, ProviderResponse, refuse
from router.contracts.provider_request import ProviderRequest
from router.core.errors import (
    BrokerUnavailable,
    CallTimeout,
    NoResponders,
    Poison,
    RouterError,
    StreamOverrun,
)
from router.extensions.model.failure import (
    ANSWERS,
    EXTENSION_ERROR,
    EXTENSION_NOT_FOUND,
    EXTENSION_TIMED_OUT,
    EXTENSION_UNAVAILABLE,
    RATE_LIMITS,
    REQUESTS,
    SERVICES,
    CountedAs,
    ExtensionFailure,
    InvocationRefused,
    find_fault,
    is_sent,
    make_refused,
    make_unavailable,
)


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
