"""A subject in a queue group, as nats.micro describes and counts it; its messages come straight from the connection's reader.

nats.micro's own endpoint runs its requests one after the other, behind a queue that says neither how long one of them has
waited nor how many there are. Here the reader hands each to a plain function, which answers at once or begins a task.
It sits on private names of nats-py, whose minor version is pinned for the same reason as in `delivery.connection`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nats.micro import add_service
from nats.micro.request import Request
from nats.micro.service import Endpoint, EndpointConfig, Service

from router.delivery.connection import Connection
from router.delivery.frame_parser import Headers
from router.routing.extensions.entry import PROVIDER, VALIDATOR
from router.sdk.extension.author import Extension
from router.sdk.extension.dispatcher import RequestDispatcher

_NUMBERED = re.compile(r"v?(\d{1,9})")
_ASKS = "{trace_id, tenant_id, payload{message_id, message_type, payload, metadata}, metadata, config}"
_SHAPES: Mapping[str, tuple[str, str]] = {
    PROVIDER: (
        "{trace_id, tenant_id, provider_id, prompt, parameters, context}",
        "{provider_id, output, usage{prompt_tokens, completion_tokens}, metadata}",
    ),
    VALIDATOR: (_ASKS, "{status: ok | reject, reason?, details?}"),
}


class ExtensionEndpoint(Endpoint):
    """One subject of a service."""

    def __init__(self, service: Service, connection: Connection, config: EndpointConfig, dispatcher: RequestDispatcher) -> None:
        super().__init__(service, config)
        self._connection = connection
        self._dispatcher = dispatcher
        self._sid = 0

    async def _start(self) -> None:
        self._sid = await self._connection.subscribe_direct(self._subject, self._hear, self._queue_group)

    async def _stop(self) -> None:
        await self._connection.unsubscribe(self._sid)

    def _hear(self, _subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self._dispatcher.dispatch(self._count, reply, data, headers)

    def _count(self, nanos: int, error: str | None) -> None:
        """One request answered, for `$SRV.STATS`; `error` is a code."""
        self._num_requests += 1
        self._processing_time += nanos
        self._average_processing_time = self._processing_time // self._num_requests
        if error is not None:
            self._num_errors += 1
            self._last_error = error  # type: ignore[assignment]  # nats-py says None and means str | None


async def create_service(connection: Connection, extension: Extension) -> Service:
    """The extension as a nats.micro service, found by `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS`."""
    return await add_service(
        connection,
        name=extension.id,
        version=_semantic(extension.version),
        description=_first_line(extension.function.__doc__),
        metadata={"type": extension.kind, "id": extension.id, "version": extension.version},
        queue_group=extension.id,
    )


async def add_endpoint(service: Service, connection: Connection, extension: Extension, subject: str, dispatcher: RequestDispatcher) -> None:
    """Start to listen on one subject of the service."""
    asks, gives = _SHAPES.get(extension.kind, (_ASKS, "{payload, metadata}"))
    config = EndpointConfig(
        name=extension.id,
        subject=subject,
        queue_group=extension.id,
        handler=_ignore_request,
        metadata={"request": asks, "response": gives},
    )
    heard = ExtensionEndpoint(service, connection, config, dispatcher)
    await heard._start()
    service._endpoints.append(heard)


async def _ignore_request(_: Request) -> None:
    """nats.micro needs a handler; `ExtensionEndpoint` never lets a request reach it."""


def _semantic(version: str) -> str:
    """nats.micro needs three numbers; the metadata holds the real version."""
    numbered = _NUMBERED.fullmatch(version)
    return f"{int(numbered[1])}.0.0" if numbered is not None else "0.0.0"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
