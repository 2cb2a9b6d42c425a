"""The codes for an extension that gave no valid answer (docs/reference/contracts.md#errors)."""

from __future__ import annotations

from collections.abc import Mapping

from router.core.errors import BrokerUnavailable, ConnectionLost, RouterError

EXTENSION_NOT_FOUND = "extension_not_found"  # not registered, disabled, or no version for this request
EXTENSION_TIMED_OUT = "extension_timeout"
EXTENSION_UNAVAILABLE = "extension_unavailable"  # no service listens, or its breaker is open
EXTENSION_ERROR = "extension_error"  # it answered with an error, or with an invalid answer
DEADLINE_EXCEEDED_FAILURE = "deadline_exceeded"  # the pipeline's own time was over


class ExtensionFailure(RouterError):
    """`code` is one of the above, or `stream_overrun`. `status` goes to the meter; `is_passing`: the same call may succeed soon.

    `is_answer`: the service worked, and its answer was an error of the request (4xx). Health counts that as a success; a failure
    that is neither the extension's fault nor an answer is not counted at all. `was_sent`: an attempt may have reached the service.
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
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_passing = is_passing
        self.is_callees = is_callees  # the extension's fault: its breaker and its health count it
        self.is_answer = is_answer
        self.was_sent = was_sent


class InvocationRefused(ExtensionFailure):
    """The router does not ask the provider, or no longer; no fault of the provider's. `details` reach the asker."""

    def __init__(self, code: str, message: str, details: Mapping[str, str], *, was_sent: bool = False) -> None:
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
    return ExtensionFailure(EXTENSION_UNAVAILABLE, message, "unavailable", is_passing=True, was_sent=False)


def short_timeout_failure(given_s: float) -> ExtensionFailure:
    """The caller gave less time than the registry allows: that is the caller's choice, and says nothing about the extension."""
    return ExtensionFailure(EXTENSION_TIMED_OUT, f"no answer within {given_s * 1000:.0f} ms", "late", is_passing=True, is_callees=False)
