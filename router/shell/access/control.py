"""Who asks, what they may see, and whether they may write. An address is narrowed for a user who is
limited to one tenant.

                    no console.users                       console.users
console.writes off  every browser reads                    users read, each what is theirs
console.writes on   every browser reads, the admin key writes   users read and write what is theirs;
                    so does the admin key
"""

from __future__ import annotations

import asyncio
import hmac

from msgspec import Struct
from starlette.requests import Request

from router.config import Settings
from router.core.errors import Misconfigured
from router.process.observability import LogRateLimit, events, logs
from router.shell.access.form import FormRefused, SentForm
from router.shell.access.sessions import LoginSession, LoginSessions
from router.shell.access.users import (
    MAX_PASSWORD,
    ConsoleUser,
    LoginAttempts,
    UserFile,
    is_password,
    is_same_user,
)
from router.shell.page_data import Page, PageNotFound, PageParams, PageSpec, Scope

COOKIE = "router_console"
ADMIN = ConsoleUser("admin key")  # a space: no user of the file is called so
log = logs.logger(__name__)


class Access(Struct, frozen=True):
    """What the one who asks may do. `session` None: not logged in."""

    session: LoginSession | None = None
    can_write: bool = False
    has_login: bool = False  # there is a login at all

    @property
    def name(self) -> str:
        return self.session.user.name if self.session is not None else ""

    @property
    def tenant(self) -> str | None:
        """The only one whose data may be seen and written; None: every tenant's."""
        return self.session.user.tenant if self.session is not None else None

    @property
    def csrf(self) -> str:
        return self.session.csrf if self.session is not None else ""


class AccessControl:
    """Raises Misconfigured at once if writes are on and no user could log in, or if the file of
    users cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        console = settings.console
        self._writes = console.writes
        self._users = UserFile(console.users)
        self._api_key = (
            settings.admin.api_key.get_secret_value()
            if console.writes and settings.admin.api_key is not None
            else None
        )
        self.needs_login = console.users is not None
        self.has_login = self._writes or self.needs_login
        self.sessions = LoginSessions()
        self.attempts = LoginAttempts()
        self._once = LogRateLimit()
        if self._writes and self._api_key is None and not self._users.read():
            raise Misconfigured(
                "console.writes",
                "needs a login: set admin.api_key, or name a file of users in console.users",
            )
        self._users.read()

    def find(self, request: Request) -> Access:
        """Who asks, by the request's cookie."""
        session = self.sessions.find(request.cookies.get(COOKIE))
        if session is not None and not self._is_still_user(session.user):
            self.sessions.end(session)
            session = None
        return Access(
            session, can_write=self._writes and session is not None, has_login=self.has_login
        )

    def may_see(self, access: Access) -> bool:
        """Whether they may see anything."""
        return not self.needs_login or access.session is not None

    def may_follow(self, access: Access) -> bool:
        """Whether who asked a while ago may go on listening: still logged in, and still a user.
        Their session is not used by that.
        """
        session = access.session
        return (
            not self.needs_login
            if session is None
            else self.sessions.is_held(session) and self._is_still_user(session.user)
        )

    def check_form(self, access: Access, form: SentForm) -> LoginSession:
        """The session of who writes. Raises FormRefused: not logged in, no writes here, or the form
        is not of a page of this session.
        """
        if access.session is None:
            raise FormRefused(401, "Log in first: the session is over, or there was none.")
        if not hmac.compare_digest(form.text("csrf").encode(), access.session.csrf.encode()):
            raise FormRefused(
                403, "This form is not of a page of your session. Open the page again."
            )
        return access.session

    async def find_user(self, name: str, password: str, address: str) -> ConsoleUser | None:
        """The user of a name and a password; no name: the holder of the admin key. Raises
        TooManyLogins.
        """
        async with self.attempts.take_turn(address):
            user = self._find_named(name)
            if len(password) > MAX_PASSWORD:
                is_right = False
            elif name or self._api_key is None:
                is_right = await asyncio.to_thread(is_password, user, password)
            else:
                user = ADMIN
                is_right = hmac.compare_digest(
                    password.encode("utf-8", "surrogatepass"),
                    self._api_key.encode("utf-8", "surrogatepass"),
                )
            self.attempts.record(address, is_right=is_right)
        if not is_right and self._once.allow(None):
            log.warning(events.CONSOLE_LOGIN_REFUSED, address=address)
        return user if is_right else None

    def _find_named(self, name: str) -> ConsoleUser | None:
        try:
            return self._users.read().get(name)
        except Misconfigured as exc:
            self._log_unreadable(exc)
            return None

    def _is_still_user(self, user: ConsoleUser) -> bool:
        if user is ADMIN:
            return True
        present = self._find_named(user.name)
        return present is not None and is_same_user(user, present)

    def _log_unreadable(self, exc: Misconfigured) -> None:
        if self._once.allow("users"):
            log.error(events.CONSOLE_USERS_UNREADABLE, error=str(exc))


# -- What a user may see who is limited to one tenant: the address is narrowed before a page is
# read, one thing is compared after.
#
# What is refused and what is not there get the same answer, so nothing tells which dead letters or
# assignments there are.


TENANT = "tenant"


def limit_address(spec: PageSpec, params: PageParams, tenant: str | None) -> PageParams:
    """The values that are read by. Raises PageNotFound."""
    if tenant is None:
        return params
    if spec.scope is Scope.ASKED:
        return PageParams({**params.values, TENANT: tenant}, params.path)
    if spec.scope is Scope.CLOSED or (spec.scope is Scope.PATH and params.path[TENANT] != tenant):
        raise PageNotFound(describe_limit(tenant))
    return params


def check_page(spec: PageSpec, page: Page | None, tenant: str | None) -> None:
    """Raises PageNotFound."""
    if (
        tenant is not None
        and spec.scope is Scope.SHOWN
        and page is not None
        and page.tenant != tenant
    ):
        raise PageNotFound(describe_limit(tenant))


def describe_absence(cause: PageNotFound, tenant: str | None) -> str:
    """To them, why there is no such thing would tell what there is."""
    return str(cause) if tenant is None else describe_limit(tenant)


def describe_limit(tenant: str) -> str:
    return f"There is nothing of tenant {tenant} here. Your login shows this tenant's data only."
