"""Read the server's `-ERR` lines about a refused login, a denied subject or a limit: nats-py has no
type for any of them.

    -ERR 'Authorization Violation'                                   the login, while connecting
    -ERR 'Permissions Violation for Publish to "a.b"'                a subject; the connection goes on, and no answer comes
    -ERR 'Permissions Violation for Subscription to "_INBOX.x.*"'    the same; for our own inbox, no answer to any request comes
    -ERR 'maximum subscriptions exceeded'                            a limit of the account or of the server; the connection is lost

These texts are part of the NATS protocol, and only this file reads them. A caller that waits for an
answer (`watch`) gets PermissionDenied at once. `on_denied` gets a denial that no caller waits for,
once for each subject.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nats.errors import Error

from router.core.errors import LoginRefused, PermissionDenied

MAX_SUBJECTS = 64  # remembered, and reported once; the oldest is forgotten first

_SUBJECT = re.compile(
    r"permissions violation for (publish|subscription)[^\"]*\"([^\"]{1,1024})\"", re.IGNORECASE
)
_LOGIN = re.compile(
    r"authorization violation|authentication (?:error|timeout|expired|revoked)", re.IGNORECASE
)

LOGIN_REMEDY = (
    "look at nats.user and nats.password, nats.token, nats.nkey_file or nats.creds_file, "
    "or at a login in nats.url, where"
    " @ / : % are written %40 %2F %3A %25"
)

_LIMIT = re.compile(r"maximum [a-z ]{1,40}exceeded", re.IGNORECASE)

LIMIT_REMEDY = "raise it for this account, or for the server, in the server's configuration"

_HOW = {"publish": "publish to", "subscription": "listen on"}


class LoginNotTaken(Error):
    """A refused login. It is a nats-py error, so nats-py tries again after it as after its own."""


def is_login_refused(text: str) -> bool:
    """Whether the server's text refuses the login."""
    return _LOGIN.search(text) is not None


def find_limit(line: str) -> str | None:
    """The server's words for a limit that it enforces; None: the line tells of none."""
    return found[0].lower() if (found := _LIMIT.search(line)) is not None else None


class LoginRefusals:
    """Count refused logins. Before the first connection they end the attempt to connect; later one
    is reported.
    """

    def __init__(self, shown: str, servers: int, on_denied: Callable[[str, str], None]) -> None:
        self._error = LoginRefused(f"the server at {shown} refuses this login: {LOGIN_REMEDY}")
        self._on_denied = on_denied
        self._left = servers  # each may refuse once before the first connection is given up
        self._was_connected = False
        self._is_reported = False

    @property
    def error(self) -> LoginRefused:
        return self._error

    def on_connected(self) -> None:
        self._was_connected, self._is_reported = True, False

    def on_refusal(self) -> None:
        """Raises LoginRefused when the last server has refused."""
        if not self._was_connected:
            self._left -= 1
            if not self._left:
                raise self._error
        elif not self._is_reported:
            self._is_reported = True
            self._on_denied("log in", LOGIN_REMEDY)


class Denials:
    """The denials of one connection since its last connect. They are kept as text, because an
    exception grows each time it is raised.
    """

    def __init__(self, on_denied: Callable[[str, str], None]) -> None:
        self._on_denied = on_denied  # what was denied (`publish to a.b`), and what to do
        self._known: dict[str, str] = {}
        self._inbox: str | None = None
        self._waiting: dict[str, list[asyncio.Future[Any]]] = {}

    def forget(self) -> None:
        """After a reconnect the server may allow what it denied before."""
        self._known.clear()
        self._inbox = None

    def find(self, subject: str) -> PermissionDenied | None:
        """The denial of this subject, if there is one."""
        words = self._known.get(subject) or self._inbox
        return PermissionDenied(words) if words is not None else None

    def on_error_line(self, line: str, inboxes: str) -> None:
        """An error line of the server. `inboxes`: the prefix of the connection's own."""
        if (found := _SUBJECT.search(line)) is None:
            return
        what, subject = f"{_HOW[found[1].lower()]} {found[2]}", found[2]
        words = f"no permission to {what}: {_REMEDY}"
        waiting = self._waiting.get(subject, [])
        if subject.startswith(inboxes):
            words += "; its inboxes begin with the setting nats.inbox_prefix"
            self._inbox = words
            waiting = [future for futures in self._waiting.values() for future in futures]
        is_new = subject not in self._known
        self._remember(subject, words)
        for future in waiting:
            if not future.done():
                future.set_exception(PermissionDenied(words))
        if is_new and not waiting:
            self._on_denied(what, _REMEDY)

    @contextmanager
    def watch(self, subject: str, answer: asyncio.Future[Any]) -> Iterator[None]:
        """While the block runs, a denial of this subject, or of our inbox, becomes the exception of
        `answer`.
        """
        waiting = self._waiting.setdefault(subject, [])
        waiting.append(answer)
        if self._inbox is not None and not answer.done():
            answer.set_exception(PermissionDenied(self._inbox))
        try:
            yield
        finally:
            waiting.remove(answer)
            if not waiting:
                self._waiting.pop(subject, None)

    def _remember(self, subject: str, words: str) -> None:
        self._known.pop(subject, None)
        self._known[subject] = words
        if len(self._known) > MAX_SUBJECTS:
            del self._known[next(iter(self._known))]


_REMEDY = (
    "allow it to this user in the server's configuration, or log in as another (nats.user, "
    "nats.nkey_file, nats.creds_file)"
)


def log_denial(what: str, remedy: str) -> None:
    # Imported here: a denial is rare, and a client without one need not import every room.
    from router.process.observability import events, logs

    logs.logger(__name__).error(events.PERMISSION_DENIED, denied=what, remedy=remedy)


def log_limit(words: str) -> None:
    from router.process.observability import events, logs  # as above

    logs.logger(__name__).error(events.BROKER_LIMIT, limit=words, remedy=LIMIT_REMEDY)
