"""A subject of a service as nats.micro describes and counts it; its messages come straight from the
connection's reader.

nats.micro's own endpoint runs its requests one after the other, behind a queue that says neither
how long one of them has waited nor how many there are. Here the reader hands each to a plain
function, which answers at once or begins a task, and counts it at its end. It uses private names of
nats-py, whose minor version is pinned for the same reason as in `delivery.connection`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import nats.errors
import orjson
from nats.micro.request import Request
from nats.micro.service import Endpoint, EndpointConfig, Service

from router.delivery.wire.connection import Connection
from router.delivery.wire.frame_parser import Headers

SCHEMA = "_schema"  # what the names of metadata that hold a JSON Schema end with
FRAME_BYTES = 512  # of a service or an endpoint in `$SRV.INFO`, beside its metadata
STOP_TIMEOUT_S = 2.0  # for the server to confirm the end of the subscriptions

CountCallback = Callable[[int, str | None], None]  # nanoseconds, the error's code
# its last three: reply address, data, headers
OnRequest = Callable[[CountCallback, str, bytes, Headers | None], None]


class MicroEndpoint(Endpoint):
    """One subject. It may join one service after the other, and keeps its counts."""

    def __init__(
        self,
        connection: Connection,
        on_request: OnRequest,
        *,
        name: str,
        subject: str,
        queue_group: str,
        metadata: Mapping[str, str],
    ) -> None:
        config = EndpointConfig(
            name=name,
            subject=subject,
            queue_group=queue_group,
            handler=_ignore_request,
            metadata=dict(metadata),
        )
        super().__init__(None, config)  # type: ignore[arg-type]  # it joins one later
        self._described = dict(metadata)
        self._connection = connection
        self._on_request = on_request
        self._sid = 0

    async def join(self, service: Service) -> None:
        """Start to listen, as a part of the service. Its schemas are left out where `$SRV.INFO`
        could be larger than the server takes.
        """
        self._service = service
        self._metadata = self._described
        if (
            sum(_measure(one) for one in (*service._endpoints, self)) + FRAME_BYTES
            > self._connection.max_payload
        ):
            self._metadata = {
                name: text for name, text in self._described.items() if not name.endswith(SCHEMA)
            }
        await self._start()
        service._endpoints.append(self)

    async def _start(self) -> None:
        self._sid = await self._connection.subscribe_direct(
            self._subject, self._on_message, self._queue_group
        )

    async def _stop(self) -> None:
        await self._connection.unsubscribe(self._sid)

    def _on_message(self, _subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self._on_request(self._count, reply, data, headers)

    def _count(self, nanos: int, error: str | None) -> None:
        """One request answered, for `$SRV.STATS`; `error` is a code, never a text, which may quote
        the request.
        """
        self._num_requests += 1
        self._processing_time += nanos
        self._average_processing_time = self._processing_time // self._num_requests
        if error is not None:
            self._num_errors += 1
            self._last_error = error  # type: ignore[assignment]  # nats-py says None and means str | None


def _measure(endpoint: Endpoint) -> int:
    """Bytes in `$SRV.INFO`. A server closes the connection that sends more than its max_payload."""
    return len(orjson.dumps(endpoint._metadata)) + FRAME_BYTES


async def stop_service(service: Service) -> None:
    """End its subscriptions. A server that hangs does not delay the end of the process for longer
    than 2 s.
    """
    with contextlib.suppress(nats.errors.Error, OSError):  # TimeoutError is an OSError
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await service.stop()


async def _ignore_request(_: Request) -> None:
    """nats.micro needs a handler; `MicroEndpoint` never lets a request reach it."""
