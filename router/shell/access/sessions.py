"""Who is logged in. A session is kept in this process, and its cookie is a random name with a
signature, and says nothing.

at login          a new name, always: one that was set in the browser before means nothing
idle, or too old  it is over
a restart         every session is over: the signing key is this process' own
bounded           of one user and of all; the one that was used longest ago goes
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from secrets import token_bytes, token_urlsafe

from itsdangerous import BadSignature, Signer
from msgspec import Struct

from router.core.clock import Clock, steady
from router.shell.access.users import ConsoleUser

IDLE_S = 30 * 60.0
WHOLE_S = 12 * 3600.0
MAX_SESSIONS = 1_000
MAX_OF_USER = 10


class LoginSession(Struct, eq=False):
    """`csrf`: what each form of this session must bring. `notice`: what the next page says, once;
    `is_bad`: something went wrong.
    """

    name: str
    user: ConsoleUser
    csrf: str
    began: float
    used: float
    notice: str = ""
    is_bad: bool = False

    def tell(self, text: str, *, is_bad: bool = False) -> None:
        """Say this on the next page."""
        self.notice, self.is_bad = text, is_bad

    def take_notice(self) -> tuple[str, bool]:
        taken = self.notice, self.is_bad
        self.notice, self.is_bad = "", False
        return taken


class LoginSessions:
    def __init__(self, clock: Clock = steady) -> None:
        self._clock = clock
        self._signer = Signer(
            token_bytes(32), salt=b"router.console.session", digest_method=hashlib.sha256
        )
        # the one that was used longest ago first
        self._sessions: OrderedDict[str, LoginSession] = OrderedDict()

    def begin(self, user: ConsoleUser) -> tuple[LoginSession, str]:
        """A new session and its cookie."""
        now = self._clock()
        session = LoginSession(token_urlsafe(24), user, token_urlsafe(24), now, now)
        self._drop_oldest(
            [other for other in self._sessions.values() if other.user.name == user.name],
            MAX_OF_USER,
        )
        self._drop_oldest(list(self._sessions.values()), MAX_SESSIONS)
        self._sessions[session.name] = session
        return session, self.sign(session.name)

    def find(self, cookie: str | None) -> LoginSession | None:
        """The session of a cookie, which is used by that; None: there is none, or it is over."""
        name = self.unsign(cookie)
        session = self._sessions.get(name) if name is not None else None
        if session is None:
            return None
        now = self._clock()
        if now - session.used > IDLE_S or now - session.began > WHOLE_S:
            self.end(session)
            return None
        session.used = now
        self._sessions.move_to_end(session.name)
        return session

    def is_held(self, session: LoginSession) -> bool:
        """Whether it goes on. It is not used by that."""
        now = self._clock()
        return (
            self._sessions.get(session.name) is session
            and now - session.used <= IDLE_S
            and now - session.began <= WHOLE_S
        )

    def end(self, session: LoginSession) -> None:
        self._sessions.pop(session.name, None)

    def sign(self, text: str) -> str:
        return self._signer.sign(text).decode()

    def unsign(self, text: str | None) -> str | None:
        """None: this process did not sign it."""
        if text is None or len(text) > 256:
            return None
        try:
            return self._signer.unsign(text).decode()
        except (BadSignature, UnicodeError):
            return None

    def _drop_oldest(self, sessions: list[LoginSession], most: int) -> None:
        for session in sessions[: max(0, len(sessions) - most + 1)]:
            self.end(session)
