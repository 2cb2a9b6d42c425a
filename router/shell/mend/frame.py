"""The frame of every write: whose form it is, may they write, and what the next page says. A write
that is refused changes nothing.

The audit events of the console stand first: one is stored after each write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from router.core.errors import RouterError, describe_causes
from router.operate.audit import OperatorWrite
from router.operate.audit.audit_event import CONSOLE
from router.operate.audit.audit_log import open_audit_log
from router.process.observability import events, logs
from router.shell.access import (
    Access,
    AccessControl,
    FormRefused,
    LoginSession,
    SentForm,
    read_form,
)
from router.shell.access.control import describe_limit
from router.shell.access.form import MAX_DOCUMENT_FORM_BYTES, MAX_FORM_BYTES
from router.shell.access.login import read_next
from router.shell.mend.runs import MendRuns
from router.shell.page_data import PageNotFound, Sources

# -- The form and its frame.

MAX_NOTE = 1_000


class Mend(Struct, frozen=True):
    """One form that may be acted on. `back`: the page that it stands on."""

    sources: Sources
    access: Access
    session: LoginSession
    form: SentForm
    path: Mapping[str, str]
    trail: ConsoleTrail
    runs: MendRuns
    back: str

    @property
    def by(self) -> str:
        return self.session.user.name

    @property
    def note(self) -> str | None:
        return self.form.text("note", MAX_NOTE).strip() or None

    def require_tenant(self, tenant: str | None) -> None:
        """Raises PageNotFound: who writes is limited to another tenant."""
        limit = self.access.tenant
        if limit is not None and limit != tenant:
            raise PageNotFound(describe_limit(limit))

    def require_all_tenants(self) -> None:
        """Raises PageNotFound: what is written concerns every tenant."""
        self.require_tenant(None)

    def require_confirmation(self) -> None:
        """Raises FormRefused."""
        if self.form.text("confirm") != "yes":
            raise FormRefused(400, "It is not confirmed: the box above the button says so.")
        if self.note is None:
            raise FormRefused(400, "Say why, in the note: it stands in the audit.")


DoMend = Callable[[Mend], Awaitable[str]]  # returns the address of the next page


class MendFrame:
    """`expire`: what pages know is read again."""

    def __init__(
        self, sources: Sources, access: AccessControl, runs: MendRuns, expire: Callable[[], None]
    ) -> None:
        self.sources = sources
        self.access = access
        self.runs = runs
        self._expire = expire

    async def open(self, request: Request) -> Mend:
        """Raises FormRefused."""
        access = self.access.find(request)
        form = await read_form(
            request, MAX_DOCUMENT_FORM_BYTES if access.can_write else MAX_FORM_BYTES
        )
        session = self.access.check_form(access, form)
        if not access.can_write:
            raise FormRefused(403, "This console only reads: console.writes is not set.")
        back, trail = read_next(form.text("back")), ConsoleTrail(self.sources, session)
        return Mend(
            self.sources, access, session, form, request.path_params, trail, self.runs, back
        )

    def finish(self, mend: Mend, text: str = "") -> None:
        """What the next page says of a write that is done, and reads again."""
        if text:
            mend.session.tell(text)
        if mend.trail.lost:
            mend.session.tell(mend.trail.lost, is_bad=True)
        self._expire()

    def bind(self, do: DoMend) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of a form."""

        async def act(request: Request) -> Response:
            mend = await self.open(request)
            try:
                then = await do(mend)
            except RouterError as exc:  # a conflict, a wrong document, an unavailable broker
                cause = describe_causes(exc)
                done = mend.session.take_notice()[0]
                mend.session.tell(
                    f"{done}. The rest was not done: {cause}"
                    if done
                    else f"Nothing was done: {cause}",
                    is_bad=True,
                )
                then = mend.back
            self.finish(mend)
            return RedirectResponse(then, 303)

        return act


# -- The audit events. One that cannot be stored is said on the next page, and logged.

log = logs.logger(__name__)


class ConsoleTrail:
    def __init__(self, sources: Sources, session: LoginSession) -> None:
        self._sources = sources
        self._session = session
        self.lost = ""  # why the last event could not be stored

    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done."""
        try:
            await open_audit_log(
                self._sources.settings,
                self._sources.link.jetstream(),
                self._session.user.name,
                CONSOLE,
            ).store(write)
        except RouterError as exc:
            self.lost = (
                f"{write.command} {write.target}: {write.outcome}, but its audit event could "
                f"not be stored: {exc}"
            )
            log.error(
                events.CONSOLE_AUDIT_LOST,
                command=write.command,
                target=write.target,
                by=self._session.user.name,
                error=str(exc),
            )
