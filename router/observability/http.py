"""The port for operators: /metrics, /healthz, /readyz.

/healthz   200 as long as the process answers
/readyz    200 or 503, {"ready": bool, "checks": {name: {"ok": bool, "detail": str}}}
/metrics   Prometheus' text, of whoever exposes; rendered off the loop

How many connections there may be, and how long each may take, is `http_protocol`'s to say.
"""

from __future__ import annotations

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

from router.errors import Misconfigured
from router.observability.exposition import CONTENT_TYPE
from router.observability.http_protocol import GuardedProtocol, OpenConnections
from router.observability.readiness import Readiness, is_ready

AT_ONCE = 64  # connections accepted in one turn of the loop, before the bound on all of them is looked at


class Exposing(Protocol):
    """Whoever has metrics to show: a registry, or a parent that asks its processes."""

    async def exposition(self) -> bytes: ...


class HttpServer:
    """A child of the supervision tree: `run` serves until it is cancelled, and may be run again."""

    def __init__(self, host: str, port: int, source: Exposing, readiness: Readiness) -> None:
        self._host = host
        self._port = port
        self._app = application(source, readiness)

    async def run(self, started: Callable[[int], None] | None = None) -> None:
        """Serve; `started` hears the port that was bound. Misconfigured: the address cannot be bound."""
        config = uvicorn.Config(
            self._app,
            http=partial(GuardedProtocol, open_connections=OpenConnections()),  # type: ignore[arg-type]  # it is called like a class
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=2,
            backlog=AT_ONCE,
        )
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        with _bound(self._host, self._port) as listener:
            # Not `serve()`: it would take the process' signals, which are the supervision tree's.
            await server.startup([listener])
            try:
                if started is not None:
                    started(listener.getsockname()[1])
                await server.main_loop()
            finally:
                await server.shutdown([listener])


def application(source: Exposing, readiness: Readiness) -> Starlette:
    """The three pages, without a server under them."""

    async def metrics(_: Request) -> Response:
        return Response(await source.exposition(), media_type=CONTENT_TYPE)

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        checks = readiness()
        ready = is_ready(checks)
        body = msgspec.json.encode({"ready": ready, "checks": checks})
        return Response(body, status_code=200 if ready else 503, media_type="application/json")

    return Starlette(routes=[Route("/metrics", metrics), Route("/healthz", healthz), Route("/readyz", readyz)])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=AT_ONCE)
    except OSError as exc:
        advice = "name a free port, 0 for any, or an address of this host in http_host"
        raise Misconfigured("http_port", f"{host}:{port} cannot be bound ({exc.strerror}): {advice}") from exc
