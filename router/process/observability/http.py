"""The port for operators: /metrics, /healthz, /readyz, and the contract.

/healthz   200 as long as the process answers; 503 with a cause that only a new process ends
/readyz    200 or 503, {"ready": bool, "checks": {name: {"ok": bool, "detail": str}}}
/metrics   Prometheus' text of the given source, or OpenMetrics where the scraper takes it; rendered
           in a thread
/contract  the published contract: /contract/asyncapi.json, /contract/schemas/decide.json …, read in
           a thread; 404 where there is none

`http_protocol` limits the connections and the time of each.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from router.core.errors import Misconfigured
from router.process.observability.exposition import CONTENT_TYPE, choose_content_type
from router.process.observability.http_protocol import GuardedProtocol, OpenConnections
from router.process.observability.readiness import Readiness, is_ready

TICK_S = 1.0  # between two readings of the clock for the header Date
# connections accepted in one turn of the loop, before `http_protocol` applies its limit
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
) -> None:
    """Serve an application until cancelled, within the limits of `protocol`. Raises Misconfigured
    if the address cannot be bound.
    """
    config = uvicorn.Config(
        application,
        http=partial(protocol, open_connections=OpenConnections()),  # type: ignore[arg-type]  # uvicorn calls it like a class
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # else any client chooses the address that its guesses of a password are counted by
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        backlog=ACCEPT_BACKLOG,
    )
    config.load()
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
        return socket.create_server(address[:2], family=family, backlog=ACCEPT_BACKLOG)
    except OSError as exc:
        advice = "name a free port, 0 for any, or an address of this host in http_host"
        raise Misconfigured(
            "http_port", f"{host}:{port} cannot be bound ({exc.strerror}): {advice}"
        ) from exc
