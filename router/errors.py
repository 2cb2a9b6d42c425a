"""Failures, sorted by what to do next.

    Transient       the same bytes may succeed later      -> Retry
    Poison          these bytes can never succeed here    -> Dead
    Misconfigured   the process must refuse to start, naming the setting and what is legal

A library's error is translated where it is caught; nobody above reads its text.
Each class carries a stable `code`, the one that letters, logs and answers use.
"""

from __future__ import annotations


class RouterError(Exception):
    """Anything that this package raises on purpose."""

    code = "internal"


def describe_causes(exc: BaseException) -> str:
    """What it says, and what it came from: a supervisor that gave up says too little alone."""
    cause = exc.__cause__
    return f"{exc}: {describe_causes(cause)}" if isinstance(cause, RouterError) else str(exc)


class Transient(RouterError):
    """Nothing is wrong with the message; the same bytes may succeed later."""

    code = "transient"


class Poison(RouterError):
    """These bytes can never succeed here; trying again only burns attempts."""

    code = "processing_error"


class Misconfigured(RouterError):
    """The process must refuse to start: `setting` is what to mend, the text says what is legal."""

    code = "misconfigured"

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting


class BrokerUnavailable(Transient):
    """The broker did not answer, or has no JetStream to answer with."""

    code = "broker_unavailable"


class BrokerDenied(BrokerUnavailable):
    """The broker is there and says no to this process. Waiting does not help: its configuration, or a setting here, is to be mended."""


class LoginRefused(BrokerDenied):
    """The broker does not take this login, or wants one."""


class PermissionDenied(BrokerDenied):
    """The login is good, and its user may not publish, or listen, on a subject."""


class NoJetStream(BrokerDenied):
    """The broker has no JetStream for this account."""


class StorageFull(Transient):
    """A stream or a bucket is full: what would be stored there may be sent again later, and everything else goes on."""

    code = "storage_full"


class NotFound(BrokerUnavailable):
    """The broker is there, and what is asked for on it was never made, or was removed."""


class BrokerRefused(RouterError):
    """The broker answered with an error of its own; `err_code` is JetStream's number for it."""

    code = "broker_refused"

    def __init__(self, err_code: int, description: str, status: int = 0) -> None:
        super().__init__(f"JetStream error {err_code}: {description}")
        self.err_code = err_code
        self.status = status


class Conflict(RouterError):
    """Somebody else wrote first: look at what stands there now, and decide again.

    Where they are known: `revision` is the bucket's, `version` the document's own.
    """

    code = "conflict"

    def __init__(self, message: str, revision: int | None = None, *, version: int | None = None) -> None:
        super().__init__(message)
        self.revision = revision
        self.version = version


class Unanswered(RouterError):
    """A client asked and nobody answered within its time."""

    code = "no_answer"


class CallTimeout(Transient):
    """A service did not answer a call within its time."""

    code = "extension_timeout"


class NoResponders(Transient):
    """Nobody listens on the subject that was called; the server said so at once."""

    code = "extension_unavailable"
