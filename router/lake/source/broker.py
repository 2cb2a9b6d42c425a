"""Connect Spark's synchronous calls to the broker: a connection and an event loop of its own,
inside a `with`.

Spark calls readers from processes without a loop, one call after the other; nothing here outlives
its `with`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

from router.core.errors import Misconfigured, NoLeader
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.server_state import require_quorum
from router.lake.source.offset import StreamState, parse_facts
from router.lake.source.options import SourceOptions

T = TypeVar("T")

ANSWER_S = 5.0  # timeout of one request
ELECTION_RETRY_S = 0.2  # a server without a leader answers at once, or not at all

_NATS_NAMES = {
    "credsfile": "user_credentials",
    "nkeyfile": "nkeys_seed",
    "tlshostname": "tls_hostname",
    "inboxprefix": "inbox_prefix",
}


class Broker:
    """A connected JetStream for synchronous callers."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Broker:
        try:
            self.jetstream = self.run(_connect(self._options))
        except BaseException:  # also Ctrl-C: the loop must not stay open
            self._loop.close()
            raise
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        try:
            self.run(self.jetstream.connection.close())
            self.run(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


def read_facts(options: SourceOptions) -> StreamState:
    """Connect, and read the state of the stream. Raises BrokerUnavailable, and Misconfigured if
    there is no such stream.

    An election of a leader is waited for, as long as `timeoutMs` lets the broker be silent.
    """
    with Broker(options) as broker:
        return broker.run(_await_facts(broker.jetstream, options))


async def _await_facts(jetstream: JetStream, options: SourceOptions) -> StreamState:
    until = asyncio.get_running_loop().time() + options.timeout_s
    while True:
        try:
            return await fetch_facts(jetstream, options.stream)
        except NoLeader:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(ELECTION_RETRY_S)


async def fetch_facts(jetstream: JetStream, stream: str) -> StreamState:
    """Read the state of the stream; raises as `read_facts` does, and NoLeader where only a copy
    answers, which may lag.
    """
    info = await jetstream.stream(stream)
    if info is None:
        raise Misconfigured("stream", f"there is no stream {stream} where `url` points to")
    require_quorum(f"stream {stream}", info)
    return parse_facts(info)


async def _connect(options: SourceOptions) -> JetStream:
    login: dict[str, Any] = {
        _NATS_NAMES.get(name, name): value
        for name, value in options.login.items()
        if name not in _TLS_FILES
    }
    if context := _make_tls(options):
        login["tls"] = context
    connection = await connect(
        {"servers": options.url.split(","), **login}, timeout_s=options.timeout_s
    )
    return JetStream(connection, options.domain, min(ANSWER_S, options.timeout_s))


_TLS_FILES = frozenset({"tlsca", "tlscert", "tlskey"})


def _make_tls(options: SourceOptions) -> ssl.SSLContext | None:
    if not _TLS_FILES & set(options.login):
        return None
    try:
        context = ssl.create_default_context(cafile=options.login.get("tlsca"))
        if (certificate := options.login.get("tlscert")) is not None:
            context.load_cert_chain(certificate, options.login.get("tlskey"))
    except (OSError, ssl.SSLError) as exc:
        raise Misconfigured("tlsCa, tlsCert, tlsKey", f"cannot be read: {exc}") from exc
    return context
