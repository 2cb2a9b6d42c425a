"""The port for operators, which any host may reach: /metrics, /healthz, /readyz, and the contract;
and limits on connections and their time.

/healthz   200 as long as the process answers; 503 with a cause that only a new process ends
/readyz    200 or 503, {"ready": bool, "checks": {name: {"ok": bool, "detail": str}}}
/metrics   Prometheus' text of the given source, or OpenMetrics where the scraper takes it; rendered
           in a thread
/contract  the published contract: /contract/asyncapi.json, /contract/schemas/decide.json …, read in
           a thread; 404 where there is none

`GuardedProtocol` limits the connections and the time of each.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import h11
import msgspec
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from router.core.errors import Misconfigured
from router.process.observability.exposition import CONTENT_TYPE, choose_content_type

# -- Ready or not, and why: the value behind /readyz.


class ReadinessCheck(Struct, frozen=True):
    """One condition of readiness; `detail` describes the problem, or the healthy state."""

    ok: bool
    detail: str = ""


# called on the loop at each probe: it must be quick and must not wait
Readiness = Callable[[], Mapping[str, ReadinessCheck]]


def readiness_series(checks: Mapping[str, ReadinessCheck]) -> dict[tuple[str, ...], int]:
    """The checks as the series of the metric `router_ready{check}`."""
    return {(name,): int(check.ok) for name, check in checks.items()}


def is_ready(checks: Mapping[str, ReadinessCheck]) -> bool:
    return all(check.ok for check in checks.values())


# -- HTTP protocol with limits, for a port that any host may reach: uvicorn's protocol, with a
# bound on connections and their time.
#
# a connection ── more than `most` ──> the host with the most connections loses its oldest one, idle ones first
#              ── no whole request within REQUEST_TIMEOUT_S of its start, or of the last response ──> closed
#              ── a response that is not read within RESPONSE_TIMEOUT_S ──> closed
#
# So the newest connection is always served: a probe gets through however many connections are held
# open, and the process keeps its file descriptors for the broker. Clients' errors are not logged,
# because clients decide how often they happen; our own errors are.


# to send a request, from the start of the connection or the end of the response before it
REQUEST_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0  # to read a response
MAX_CONNECTIONS = 100  # a scrape and two probes need three
FILES_PER_CONNECTION = 8  # at most this part of the files that the process may open
OWN_FILES = 64  # of a process whose business are its clients

_log = logging.getLogger("router.http")
# a client can cause "Invalid HTTP request received." as often as it likes
_log.setLevel(logging.ERROR)


class OpenConnections:
    """The connections of one server by host, the oldest first. `spares_answers`: one that waits
    for its answer is not closed for another; where all do, the newest is.
    """

    def __init__(self, most: int | None = None, *, spares_answers: bool = False) -> None:
        self._most = most if most is not None else connection_limit()
        self._spares_answers = spares_answers
        self._hosts: dict[str, OrderedDict[GuardedProtocol, None]] = {}
        self.count = 0

    def add(self, protocol: GuardedProtocol) -> None:
        self._hosts.setdefault(protocol.host, OrderedDict())[protocol] = None
        self.count += 1
        if self.count > self._most:
            self._close_one()

    def remove(self, protocol: GuardedProtocol) -> None:
        """Remove a connection. Does nothing if it was removed before."""
        of_host = self._hosts.get(protocol.host)
        if of_host is None or protocol not in of_host:
            return
        del of_host[protocol]
        self.count -= 1
        if not of_host:
            del self._hosts[protocol.host]

    def _close_one(self) -> None:
        most = max(self._hosts.values(), key=len)
        oldest, newest = next(iter(most)), next(reversed(most))
        closed = next(
            (connection for connection in most if not connection.is_answering),
            newest if self._spares_answers else oldest,
        )
        self.remove(closed)
        closed.abort()


class GuardedProtocol(H11Protocol):
    def __init__(self, *, open_connections: OpenConnections, **options: Any) -> None:
        super().__init__(**options)
        self.logger = _log
        self.host = ""
        self._open = open_connections
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        """Whether a request was received whose response is not sent yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        self.transport.abort()

    # -- uvicorn's methods, each extended by the limits --------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        self._set_deadline(REQUEST_TIMEOUT_S)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self._open.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        was_answering = self.is_answering
        super().handle_events()
        if self.is_answering and not was_answering:
            self._set_deadline(RESPONSE_TIMEOUT_S)

    def send_400_response(self, msg: str) -> None:
        """Where a response was sent already, or is on its way, there is no place for another."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.abort()

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._set_deadline(REQUEST_TIMEOUT_S)
        super().on_response_complete()

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self._on_deadline, seconds)

    def _on_deadline(self, waited: float) -> None:
        if waited < RESPONSE_TIMEOUT_S and self.transport.get_write_buffer_size():
            self._set_deadline(RESPONSE_TIMEOUT_S)  # a response is still being written
        else:
            self.abort()

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def connection_limit() -> int:
    """Connections that this process allows: it needs its other files for the broker, the database
    and the tables.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MAX_CONNECTIONS
        if files == resource.RLIM_INFINITY
        else max(4, min(MAX_CONNECTIONS, files // FILES_PER_CONNECTION))
    )


def limit_clients(most: int) -> int:
    """As `connection_limit`, where clients are what the process is for."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return most
    # those of one turn of the loop are accepted before one is closed for them
    return max(4, min(most, files - OWN_FILES - ACCEPT_BACKLOG))


# -- The port for operators: /metrics, /healthz, /readyz, and the contract.


TICK_S = 1.0  # between two readings of the clock for the header Date
# connections accepted in one turn of the loop, before `GuardedProtocol` applies its limit
ACCEPT_BACKLOG = 64


ReadPage = Callable[[str], bytes | None]  # a page below /contract/; None: there is none


# why only a new process helps; None: nothing is wrong with this one
ReadCause = Callable[[], str | None]


def read_no_cause() -> None:
    """For a program without a connection of its own."""


def read_no_page(_: str) -> bytes | None:
    """For a program that publishes no contract."""
    return None


class MetricSource(Protocol):
    """What /metrics shows: a registry, or a parent process that merges those of its children."""

    async def exposition(self, content_type: str = CONTENT_TYPE) -> bytes: ...


class ServerLimits(Struct, frozen=True):
    """Of one port. `connections` None: a few, for scrapes and probes. `drain_s`: answers may take
    so long at the end.
    """

    connections: int | None = None
    spares_answers: bool = False
    drain_s: float = 2.0


class TlsFiles(Struct, frozen=True):
    """PEM files."""

    cert: Path
    key: Path


USUAL_LIMITS = ServerLimits()


class HttpServer:
    """A child of the supervision tree: `run` serves until it is cancelled, and can be called again."""

    def __init__(
        self,
        host: str,
        port: int,
        source: MetricSource,
        readiness: Readiness,
        read_page: ReadPage = read_no_page,
        *,
        stuck: ReadCause = read_no_cause,
    ) -> None:
        self._host = host
        self._port = port
        self._app = create_application(source, readiness, read_page, stuck)

    async def run(self, on_started: Callable[[int], None] | None = None) -> None:
        """Serve. `on_started` is called with the bound port. Raises Misconfigured if the address
        cannot be bound.
        """
        await serve_application(self._app, self._host, self._port, on_started)


async def serve_application(
    application: ASGIApp,
    host: str,
    port: int,
    on_started: Callable[[int], None] | None = None,
    *,
    protocol: type[GuardedProtocol] = GuardedProtocol,
    limits: ServerLimits = USUAL_LIMITS,
    tls: TlsFiles | None = None,
    on_stopping: Callable[[], object] = lambda: None,
) -> None:
    """Serve an application until cancelled, within the limits of `protocol`; then `on_stopping` is
    called, and answers are waited for. Raises Misconfigured if the address cannot be bound, or a
    file of `tls` cannot be read.
    """
    opened = OpenConnections(limits.connections, spares_answers=limits.spares_answers)
    config = uvicorn.Config(
        application,
        # uvicorn calls it like a class
        http=partial(protocol, open_connections=opened),  # type: ignore[arg-type]
        ssl_certfile=tls.cert if tls is not None else None,
        ssl_keyfile=tls.key if tls is not None else None,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # else any client chooses the address that its guesses of a password are counted by
        proxy_headers=False,
        timeout_graceful_shutdown=limits.drain_s,  # type: ignore[arg-type]  # it may be any number
        backlog=ACCEPT_BACKLOG,
    )
    try:
        config.load()
    except OSError as exc:  # ssl.SSLError is one
        raise Misconfigured("tls", f"the certificate or its key cannot be read: {exc}") from exc
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with _bind(host, port) as listener:
        # Not `serve()`: it would handle the process' signals, which the supervision tree handles.
        await server.startup([listener])
        try:
            if on_started is not None:
                on_started(listener.getsockname()[1])
            await _tick(server)
        finally:
            on_stopping()
            await server.shutdown([listener])


def create_application(
    source: MetricSource,
    readiness: Readiness,
    read_page: ReadPage = read_no_page,
    stuck: ReadCause = read_no_cause,
) -> Starlette:
    """The pages as an ASGI application."""

    async def metrics(request: Request) -> Response:
        content_type = choose_content_type(request.headers.get("accept", ""))
        return Response(await source.exposition(content_type), media_type=content_type)

    async def healthz(_: Request) -> Response:
        cause = stuck()
        return PlainTextResponse("ok\n") if cause is None else PlainTextResponse(f"{cause}\n", 503)

    async def readyz(_: Request) -> Response:
        checks = readiness()
        ready = is_ready(checks)
        body = msgspec.json.encode({"ready": ready, "checks": checks})
        return Response(body, status_code=200 if ready else 503, media_type="application/json")

    async def contract(request: Request) -> Response:
        page = await asyncio.to_thread(read_page, request.path_params["page"])
        return (
            PlainTextResponse("not found\n", 404)
            if page is None
            else Response(page, media_type="application/json")
        )

    routes = {
        "/metrics": metrics,
        "/healthz": healthz,
        "/readyz": readyz,
        "/contract/{page:path}": contract,
    }
    return Starlette(routes=[Route(path, page) for path, page in routes.items()])


async def _tick(server: uvicorn.Server) -> None:
    """Not `main_loop`, which wakes ten times a second to see whether it should end: the supervision
    tree cancels this one.
    """
    while True:
        await server.on_tick(0)
        await asyncio.sleep(TICK_S)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.create_server(address[:2], family=family, backlog=ACCEPT_BACKLOG)
        # Accepted sockets inherit it. asyncio sets it only where a socket names its protocol, which
        # these do not; else each part of a response waits for the ack of the one before, to 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as exc:
        advice = "name a free port, 0 for any, or an address of this host in http_host"
        raise Misconfigured(
            "http_port", f"{host}:{port} cannot be bound ({exc.strerror}): {advice}"
        ) from exc
