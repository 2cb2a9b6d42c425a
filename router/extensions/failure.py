"""Why an extension gave no answer that counts, by its codes (docs/contracts.md#errors)."""

from __future__ import annotations

from router.errors import RouterError

NOT_FOUND = "extension_not_found"  # not registered, disabled, or for nobody like this one
TIMED_OUT = "extension_timeout"
UNAVAILABLE = "extension_unavailable"  # nobody listens, or its breaker is open
BROKEN = "extension_error"  # it said no, or answered what is no answer
LATE = "deadline_exceeded"  # it was the pipeline's own time that ran out


class ExtensionFailure(RouterError):
    """`code` is one of the above. `status` is what its meter is told; `is_passing`: the same call may succeed soon.

    `is_answer`: the service answered in good order, and its answer was no. Health counts that as a success; a failure that is
    neither the extension's nor an answer is not counted at all.
    """

    def __init__(
        self, code: str, message: str, status: str, *, is_passing: bool = False, is_callees: bool = True, is_answer: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.is_passing = is_passing
        self.is_callees = is_callees  # its breaker and its health are told
        self.is_answer = is_answer


class ServiceDeadlineExceeded(ExtensionFailure):
    """The service answered 504: the time that it was given was over, and it stopped."""


def short_timeout_failure(given_s: float) -> ExtensionFailure:
    """The caller gave less time than the registry allows: that is the caller's choice, and says nothing about the extension."""
    return ExtensionFailure(TIMED_OUT, f"no answer within {given_s * 1000:.0f} ms", "late", is_passing=True, is_callees=False)
