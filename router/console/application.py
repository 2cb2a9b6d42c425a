"""The console's addresses: the page Now and its events, each page with its exports, files; what is
shown for what is not there; and which requests are answered at all.

A page answers 200 with what is known, also while the broker is unavailable; 404 and 400 say what is
legal. No error shows a traceback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from router.config import Settings
from router.console.page_feed import PageFeed, answer_with_events
from router.console.slow_pages import BEGIN_AFTER_S, Knowledge, answer_early
from router.core.legible import shorten
from router.shell.access import Access, AccessControl, FormRefused, LoginPages
from router.shell.access.control import check_page, describe_absence, limit_address
from router.shell.page_data import InvalidAddress, Page, PageNotFound, PageParams, PageSpec, Sources
from router.shell.pages import PAGES
from router.shell.rendering import compile_templates, render
from router.shell.sampler import NowState, Sampler
from router.shell.table import FORMAT, MAX_ROWS, choose_rows, view_table, write_csv, write_json

# -- Which requests are answered at all, and the headers that every response has.
#
# Host header   only names of this console: a page of another site that resolves its own name to
#               this address reads nothing
# method        GET and HEAD; POST only where there is a login, and only of a form on a page of this
#               console (its Origin)
# length        of the address, before it is parsed or logged
# headers       no script or style but our files, no frame around a page, no address of ours told to
#               another site


MAX_PATH_BYTES = 1_024
MAX_QUERY_BYTES = 4_096
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # with no-referrer a form of ours would have the Origin `null`
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
UNKNOWN_HOST = (
    "This console is not known by that name. If browsers reach it so, name it in the setting "
    "console.hosts.\n"
)
FOREIGN_FORM = "A form is taken from a page of this console only.\n"


class ConsoleGuard:
    """Middleware around the whole application. `hosts`: names beside those of this machine;
    `takes_forms`: there is a login.
    """

    def __init__(
        self, application: ASGIApp, hosts: Iterable[str] = (), *, takes_forms: bool = False
    ) -> None:
        self._application = application
        self._takes_forms = takes_forms
        self._hosts = frozenset(name.lower() for name in (*LOCAL_NAMES, *hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # there is no WebSocket here
        refusal = self._refuse(scope)
        await (refusal or self._application)(scope, receive, _add_headers(send))

    def _refuse(self, scope: Scope) -> Response | None:
        if len(scope["raw_path"]) > MAX_PATH_BYTES or len(scope["query_string"]) > MAX_QUERY_BYTES:
            return PlainTextResponse("The address is too long.\n", 414)
        hosts = _list_values(scope, b"host")
        if not self._is_own_host(hosts):
            return PlainTextResponse(UNKNOWN_HOST, 421)
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST" or not self._takes_forms:
            return PlainTextResponse("The console only reads.\n", 405, {"allow": "GET, HEAD"})
        return None if _is_own_origin(scope, hosts[0]) else PlainTextResponse(FOREIGN_FORM, 403)

    def _is_own_host(self, given: list[bytes]) -> bool:
        return len(given) == 1 and _strip_port(given[0].decode("latin-1").lower()) in self._hosts


def _is_own_origin(scope: Scope, host: bytes) -> bool:
    """Every browser names the page that sends a form; where it does not, it must say that the page
    is of the same origin.
    """
    origins = _list_values(scope, b"origin")
    if not origins:
        return _list_values(scope, b"sec-fetch-site") == [b"same-origin"]
    return len(origins) == 1 and origins[0].lower() in (
        b"http://" + host.lower(),
        b"https://" + host.lower(),
    )


def _list_values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for given, value in scope["headers"] if given == name]


def _strip_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (port == "" or (port.isascii() and port.isdigit())) else host


def _add_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return send_with_headers


# -- The console's addresses: the page Now and its events, each page with its exports, files; and
# what is shown for what is not there.


Specs = tuple[PageSpec, ...]


class ConsolePages:
    """Answers requests."""

    def __init__(
        self,
        sources: Sources,
        access: AccessControl,
        sampler: Sampler,
        feed: PageFeed,
        begin_after_s: float = BEGIN_AFTER_S,
    ) -> None:
        self._sources = sources
        self._begin_after_s = begin_after_s
        self._access = access
        self._sampler = sampler
        self._feed = feed
        self._knowledge: Knowledge[Page] = Knowledge()
        self.expire = self._knowledge.expire

    async def show_now(self, request: Request) -> Response:
        access = self._access.find(request)
        if not self._access.may_see(access):
            return _ask_login(request)
        if access.tenant is not None:  # it shows what concerns every tenant
            return RedirectResponse("/dead-letters", 303)
        now = await self._sampler.read_now()
        html = render(
            "now.html",
            PAGES,
            path="/",
            now=now,
            is_live=not self._feed.is_full,
            **_list_access(access),
        )
        return HTMLResponse(html)

    async def follow_now(self, request: Request) -> Response:
        access = self._access.find(request)
        if not self._access.may_see(access) or access.tenant is not None:
            return PlainTextResponse("Log in first.\n", 403)
        if self._feed.is_full:
            return PlainTextResponse(
                "As many pages as allowed are live: console.clients.\n", 503, {"retry-after": "30"}
            )
        self._sampler.begin()
        return answer_with_events(self._feed.follow(lambda: self._access.may_follow(access)))

    async def show(self, spec: PageSpec, request: Request) -> Response:
        """A page as HTML, or its table as a file."""
        access = self._access.find(request)
        if not self._access.may_see(access):
            return _ask_login(request)
        answer = self._answer(spec, request, access)
        # one thing is read soon, and the status says whether it is there
        if FORMAT in request.query_params or "{" in spec.path:
            return await answer
        return await answer_early(answer, lambda: _begin(spec, access), self._begin_after_s)

    async def _answer(self, spec: PageSpec, request: Request, access: Access) -> Response:
        try:
            params = limit_address(
                spec, PageParams(dict(request.query_params), request.path_params), access.tenant
            )
            question = (
                spec.path,
                *sorted(params.path.items()),
                *((name, params.values.get(name)) for name in spec.asks),
            )
            kept = await self._knowledge.read(question, lambda: spec.read(self._sources, params))
            check_page(spec, kept.value, access.tenant)
        except PageNotFound as exc:
            return _show_error(404, "There is no such thing", describe_absence(exc, access.tenant))
        except InvalidAddress as exc:
            return _show_error(400, "The address cannot be meant", str(exc))
        page = kept.value
        if page is not None and page.table is not None:
            if params.text(FORMAT) in ("csv", "json"):
                return await _export(spec, page, params)
            view = await asyncio.to_thread(view_table, page.table, params.values)
        else:
            view = None
        label = page.title if page is not None else spec.label or "Console"
        values = {
            "path": _find_labelled(spec).path,
            "page": page,
            "view": view,
            "known": kept,
            "title": label,
            "here": request.url.path,
        }
        values["back"] = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return HTMLResponse(
            await asyncio.to_thread(
                partial(render, "page.html", PAGES, **values, **_list_access(access))
            )
        )


def build_application(
    settings: Settings, pages: ConsolePages, login: LoginPages, mends: Sequence[Route] = ()
) -> ASGIApp:
    """The application, guarded from outside: also a page that fails has the headers of the others."""
    compile_templates()
    static = StaticFiles(packages=[("router.console", "static")])
    routes = [
        Route("/", pages.show_now),
        Route("/live", pages.follow_now),
        Route("/login", login.show),
        Route("/login", login.log_in, methods=["POST"]),
        Route("/logout", login.log_out, methods=["POST"]),
        *mends,
        *(Route(spec.path, _bind(pages, spec)) for spec in PAGES),
        Mount("/static", static),
    ]
    handlers: Mapping[Any, Any] = {
        404: _show_missing,
        405: _show_wrong_method,
        500: _show_failure,
        FormRefused: _show_refusal,
        PageNotFound: _show_absence,
    }
    application = Starlette(routes=routes, exception_handlers=handlers)
    return ConsoleGuard(
        application, (settings.console.host, *settings.console.hosts), takes_forms=login.is_open
    )


def render_now(state: NowState) -> str:
    """The part of the page Now that changes."""
    return render("_now.html", PAGES, now=state)


def _find_labelled(spec: PageSpec) -> PageSpec:
    """The page in the navigation that it belongs to; no other's are the tables of Now."""
    return next(
        (page for page in PAGES if page.label and spec.path.startswith(page.path)),
        PageSpec("/", spec.read, "Now"),
    )


def _begin(spec: PageSpec, access: Access) -> Response:
    """The layout around a page that is still read."""
    labelled = _find_labelled(spec)
    return HTMLResponse(
        render("layout.html", PAGES, path=labelled.path, title=labelled.label, access=access)
    )


def _bind(pages: ConsolePages, spec: PageSpec) -> Callable[[Request], Awaitable[Response]]:
    async def show(request: Request) -> Response:
        return await pages.show(spec, request)

    return show


async def _export(spec: PageSpec, page: Page, params: PageParams) -> Response:
    table, kind = page.table, params.values[FORMAT]
    if table is None:
        return _show_error(404, "There is no such thing", "This page has no table.")
    rows = (await asyncio.to_thread(choose_rows, table, params.values))[:MAX_ROWS]
    name = spec.path.strip("/").partition("/")[0]
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    if kind == "csv":
        return Response(
            await asyncio.to_thread(write_csv, table, rows),
            media_type="text/csv; charset=utf-8",
            headers=headers,
        )
    return Response(
        await asyncio.to_thread(write_json, table, rows),
        media_type="application/json",
        headers=headers,
    )


def _show_error(status: int, title: str, text: str) -> Response:
    return HTMLResponse(
        render("error.html", PAGES, path="", title=title, text=shorten(text, 2_000)), status
    )


def _list_access(access: Access) -> Mapping[str, object]:
    """For the layout: who is logged in, and what is to be said to them once."""
    return {
        "access": access,
        "notice": access.session.take_notice() if access.session is not None else ("", False),
    }


def _ask_login(request: Request) -> Response:
    if request.method == "GET" and FORMAT not in request.query_params:
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse("/login?" + urlencode({"next": here[:1_000]}), 303)
    return _show_error(401, "Log in first", "This console shows its pages to its users: /login.")


async def _show_refusal(_: Request, refused: FormRefused) -> Response:
    return _show_error(refused.status, "Nothing was done", str(refused))


async def _show_absence(_: Request, absent: PageNotFound) -> Response:
    return _show_error(404, "There is no such thing", str(absent))


async def _show_wrong_method(request: Request, _: Exception) -> Response:
    return _show_error(
        405, "Nothing was done", f"{shorten(request.url.path)} takes no {request.method}."
    )


async def _show_missing(_: Request, __: Exception) -> Response:
    return _show_error(404, "There is no such page", "The pages are in the navigation above.")


async def _show_failure(_: Request, __: Exception) -> Response:
    return _show_error(
        500, "This page failed", "The log of the console has the cause. The other pages go on."
    )
