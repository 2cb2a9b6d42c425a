"""Failures, sorted by what to do next.

    Transient       the same bytes may succeed later      -> Retry
    Poison          these bytes can never succeed here    -> Dead
    Misconfigured   the process must refuse to start, naming the setting and what is legal

A library's error is translated where it is caught; no caller reads its text.
Each class has a stable `code`, which dead letters, logs and answers use.
"""

from __future__ import annotations


class RouterError(Exception):
    """Base of all errors that this package raises on purpose."""

    code = "internal"


def describe_causes(exc: BaseException) -> str:
    """The text of the error and of its causes: a supervisor that gave up names only the child."""
    cause = exc.__cause__
    return f"{exc}: {describe_causes(cause)}" if isinstance(cause, RouterError) else str(exc)


class Transient(RouterError):
    """Nothing is wrong with the message; the same bytes may succeed later."""

    code = "transient"


class Poison(RouterError):
    """These bytes can never succeed here; trying again only burns attempts."""

    code = "processing_error"


class TooLargeToStore(Poison):
    """A stream, a bucket or the connection never takes so many bytes."""

    code = "too_large"


class Misconfigured(RouterError):
    """The process must refuse to start: `setting` is the setting to correct, the text says what is
    legal.
    """

    code = "misconfigured"

    def __init__(self, setting: str, message: str) -> None:
        super().__init__(f"{setting}: {message}")
        self.setting = setting


class BrokerUnavailable(Transient):
    """The broker did not answer, or has no JetStream to answer with."""

    code = "broker_unavailable"


class ConnectionLost(BrokerUnavailable):
    """The connection was lost after a request was sent: it may have arrived."""


class NoLeader(BrokerUnavailable):
    """JetStream does not answer: the cluster, a stream or a consumer has no leader now. Waiting
    helps, no setting is wrong.
    """


class QuorumLost(NoLeader):
    """What leads a stream or a consumer cannot reach enough of its servers. Another server may be
    on the other side.
    """


class ConnectionStuck(BrokerUnavailable):
    """The connection does not come back though its servers can be reached. Only another one helps:
    mostly, a new process.
    """


class BrokerDenied(BrokerUnavailable):
    """The broker refuses this process. Waiting does not help: its configuration, or a setting here,
    must be corrected.
    """


class LoginRefused(BrokerDenied):
    """The broker refuses the login, or requires one."""


class PermissionDenied(BrokerDenied):
    """The login is good, and its user may not publish, or listen, on a subject."""


class NoJetStream(BrokerDenied):
    """The broker has no JetStream for this account."""


class StorageFull(Transient):
    """A stream or a bucket is full: the message may be stored later; other streams are not
    affected.
    """

    code = "storage_full"


class StorageRefused(BrokerUnavailable):
    """A stream or a bucket takes nothing until an operator mends it: it is missing, sealed, or set
    up for something else.
    """


class NotFound(StorageRefused):
    """A stream, bucket or consumer does not exist: it was never created, or was deleted."""


class BrokerRefused(RouterError):
    """The broker answered with an error of its own; `err_code` is JetStream's number for it."""

    code = "broker_refused"

    def __init__(self, err_code: int, description: str, status: int = 0) -> None:
        super().__init__(f"JetStream error {err_code}: {description}")
        self.err_code = err_code
        self.status = status


class Conflict(RouterError):
    """Another writer was first: read the current value, and decide again.

    If known, `revision` is the bucket's and `version` the document's.
    """

    code = "conflict"

    def __init__(
        self, message: str, revision: int | None = None, *, version: int | None = None
    ) -> None:
        super().__init__(message)
        self.revision = revision
        self.version = version


class Unanswered(RouterError):
    """A client got no answer within its time."""

    code = "no_answer"


class NoRouter(Unanswered):
    """No router listens on the subject: none runs on this server, or none can."""


class CallTimeout(Transient):
    """A service did not answer a call within its time."""

    code = "extension_timeout"


class NoResponders(Transient):
    """No subscriber listens on the called subject; the server answers that at once."""

    code = "extension_unavailable"


class StreamOverrun(RouterError):
    """A stream came faster than its reader read it, and pieces were dropped."""

    code = "stream_overrun"
