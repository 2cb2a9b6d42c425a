"""Which requests are answered at all, and the headers that every response has.

Host header     only names of this console: a page of another site that resolves its own name to
                this address reads nothing
method          GET and HEAD; POST only where there is a login, and only of a form on a page of this
                console (its Origin)
length          of the address, before it is parsed or logged
headers         no script or style but our files, no frame around a page, no address of ours told to
                another site
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
