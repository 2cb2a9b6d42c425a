"""HTTP protocol with limits, for a port that any host may reach: uvicorn's protocol, with a bound
on connections and their time.

    a connection ── more than `most` ──> the host with the most connections loses its oldest one, idle ones first
                 ── no whole request within REQUEST_TIMEOUT_S of its start, or of the last response ──> closed
                 ── a response that is not read within RESPONSE_TIMEOUT_S ──> closed

So the newest connection is always served: a probe gets through however many connections are held
open, and the process keeps its file descriptors for the broker. Clients' errors are not logged,
because clients decide how often they happen; our own errors are.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

# to send a request, from the start of the connection or the end of the response before it
REQUEST_TIMEOUT_S = 5.0
RESPONSE_TIMEOUT_S = 30.0  # to read a response
MAX_CONNECTIONS = 100  # a scrape and two probes need three
FILES_PER_CONNECTION = 8  # at most this part of the files that the process may open

_log = logging.getLogger("router.http")
# a client can cause "Invalid HTTP request received." as often as it likes
_log.setLevel(logging.ERROR)


class OpenConnections:
    """The connections of one server by host, the oldest first."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most if most is not None else connection_limit()
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
        closed = next((one for one in most if not one.is_answering), next(iter(most)))
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
