"""HTTP for a port that anybody may reach: uvicorn's protocol, with a bound on connections and on their time.

    a connection ── more than `most` ──> the host that holds most loses its oldest, one that waits for a request first
                 ── no whole request within HEAD_S of its beginning, or of the last answer ──> closed
                 ── an answer that is not taken within ANSWER_S ──> closed

So the newest connection is always served: a probe comes through whatever somebody holds open, and the process keeps its
file descriptors for the broker. Nothing of this is logged: a stranger decides how often it happens. Errors of our own are.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 5.0  # to send a request, from the beginning of the connection or the end of the answer before it
ANSWER_S = 30.0  # to take an answer
MOST = 100  # connections; a scrape and two probes need three
OF_FILES = 8  # and at most this part of the files that the process may open

_log = logging.getLogger("router.http")
_log.setLevel(logging.ERROR)  # "Invalid HTTP request received." is a stranger's to cause


class OpenConnections:
    """Those of one server, by host, the oldest first."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most if most is not None else most_connections()
        self._hosts: dict[str, OrderedDict[GuardedProtocol, None]] = {}
        self.count = 0

    def add(self, protocol: GuardedProtocol) -> None:
        self._hosts.setdefault(protocol.host, OrderedDict())[protocol] = None
        self.count += 1
        if self.count > self._most:
            self._close_one()

    def remove(self, protocol: GuardedProtocol) -> None:
        """Forget it; a second time does nothing."""
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
    """One connection."""

    def __init__(self, *, open_connections: OpenConnections, **given: Any) -> None:
        super().__init__(**given)
        self.logger = _log
        self.host = ""
        self._open = open_connections
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        """Whether a request is here whose answer is not sent yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        self.transport.abort()

    # -- uvicorn's own, each with what the bounds need ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.host = self.client[0] if self.client else ""
        self._end_in(HEAD_S)
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_never()
        self._open.remove(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        was_answering = self.is_answering
        super().handle_events()
        if self.is_answering and not was_answering:
            self._end_in(ANSWER_S)

    def on_response_complete(self) -> None:
        if not self.transport.is_closing():
            self._end_in(HEAD_S)
        super().on_response_complete()

    def _end_in(self, seconds: float) -> None:
        self._end_never()
        self._deadline = self.loop.call_later(seconds, self._end, seconds)

    def _end(self, waited: float) -> None:
        if waited < ANSWER_S and self.transport.get_write_buffer_size():
            self._end_in(ANSWER_S)  # an answer is still on its way
        else:
            self.abort()

    def _end_never(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def most_connections() -> int:
    """Of this process: the rest of its files are the broker's, the database's and the tables'."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else max(4, min(MOST, files // OF_FILES))
