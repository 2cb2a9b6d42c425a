"""Serves the operators' services, found and described by the service protocol (nats.micro); a task
for each request.

A dry run that calls slow extensions delays no other request. Every request gets one answer: that of
the service, its ServiceError, `internal` for an unexpected exception (logged), or `internal` if the
router stops meanwhile.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial

import orjson
from msgspec import Struct
from nats.micro import add_service
from nats.micro.request import ERROR_CODE_HEADER, ERROR_HEADER

from router import __version__
from router.config.service import AdminConfig
from router.contracts.raw_json import RawJson
from router.contracts.shapes.notation import build_request, build_response
from router.core.errors import BrokerUnavailable, StorageFull, StorageRefused
from router.core.message import NO_HEADERS
from router.delivery.wire.calls import request_server
from router.delivery.wire.calls.request_server import (
    CountCallback,
    MicroEndpoint,
    RequestServer,
    stop_service,
)
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import Headers
from router.operate.admin.request_guard import RequestGuard
from router.operate.admin.service import (
    INTERNAL,
    INTERNAL_PREFIX,
    OVERLOADED,
    Service,
    ServiceError,
    explain_storage,
)
from router.process.observability import ReadinessCheck

NOT_SERVING = ReadinessCheck(False, "not serving")
MAX_ERROR_TEXT = 200  # of an error's text in a header
REFUSALS: Mapping[str, ServiceError] = {
    request_server.OVERLOADED: ServiceError(OVERLOADED, "Too many requests in flight; ask again"),
    request_server.STOPPING: ServiceError(
        INTERNAL, "The router is stopping; ask again", {"cause": "stopping"}
    ),
    request_server.FAILED: ServiceError(INTERNAL, "The request could not be handled"),
}


class AdminRequest(Struct, frozen=True):
    """One request. `count` is called once with what it took (ns), and the error's code."""

    service: Service
    reply: str
    data: bytes
    headers: Mapping[str, str]
    arrived_ns: int
    count: CountCallback


class AdminServer(RequestServer[AdminRequest]):
    """Serves the services until it is cancelled. It can be run again, and keeps its counts."""

    def __init__(
        self,
        connection: Connection,
        guard: RequestGuard,
        services: Sequence[Service],
        admin: AdminConfig,
        node_id: str,
    ) -> None:
        super().__init__(connection, "admin", at_once=admin.at_once)
        self._guard = guard
        self._queue_group, self._node_id = admin.queue_group, node_id
        # a queue group of this instance only: it receives every request
        alone = f"router-{uuid.uuid4().hex}"
        self._endpoints = [
            self._build_endpoint(service, alone if service.is_everywhere else admin.queue_group)
            for service in services
        ]
        self.check = NOT_SERVING  # for readiness

    def _build_endpoint(self, service: Service, queue_group: str) -> MicroEndpoint:
        schemas = {
            "request_schema": build_request(service.asks),
            "response_schema": build_response(service.gives),
        }
        metadata = {
            **{"description": service.says, "request": service.asks, "response": service.gives},
            **{name: orjson.dumps(schema).decode() for name, schema in schemas.items()},
        }
        on_request = partial(self._on_request, service)
        return MicroEndpoint(
            self._connection,
            on_request,
            name=service.name,
            subject=service.subject,
            queue_group=queue_group,
            metadata=metadata,
        )

    async def run(self) -> None:
        self._is_stopping = False
        micro_service = await add_service(
            self._connection,
            name="router-admin",
            version=__version__,
            description="Router: policies, extensions, breakers, decisions",
            metadata={"node_id": self._node_id},
            queue_group=self._queue_group,
        )
        try:
            for endpoint in self._endpoints:
                await endpoint.join(micro_service)
            await self._connection.flush()
            self.check = ReadinessCheck(True, f"serving {len(self._endpoints)} services")
            await asyncio.Event().wait()
        finally:
            self.check = NOT_SERVING
            await stop_service(micro_service)
            await self.drain()

    def _on_request(
        self,
        service: Service,
        count: CountCallback,
        reply: str,
        data: bytes,
        headers: Headers | None,
    ) -> None:
        if self._guard.addresses.may_reach(reply, is_instance=service.prefix == INTERNAL_PREFIX):
            self.begin(
                AdminRequest(
                    service, reply, data, headers or NO_HEADERS, time.perf_counter_ns(), count
                )
            )

    async def answer(self, request: AdminRequest) -> None:
        try:
            fields = self._guard.open(
                request.data, request.headers, request.service.subject, request.reply
            )
            answer = _encode({"ok": True, **await request.service.answer(fields)})
            # the server would close the connection for it
            if len(answer) > self._connection.max_payload:
                raise ServiceError(
                    INTERNAL,
                    "The answer is larger than the connection allows",
                    {"cause": "too_large"},
                )
        except ServiceError as error:
            self._send_error(request, error)
        except (StorageRefused, StorageFull) as exc:
            self._send_error(request, explain_storage(exc))
        except BrokerUnavailable as exc:
            self._send_error(
                request, ServiceError(INTERNAL, "The broker did not answer", {"cause": exc.code})
            )
        else:
            self._connection.publish_nowait(request.reply, answer)
            request.count(time.perf_counter_ns() - request.arrived_ns, None)

    def refuse(self, request: AdminRequest, reason: str) -> None:
        self._send_error(request, REFUSALS[reason])

    def name_of(self, request: AdminRequest) -> str:
        return request.service.name

    def _send_error(self, request: AdminRequest, error: ServiceError) -> None:
        headers = {
            ERROR_CODE_HEADER: str(error.status),
            ERROR_HEADER: f"{error.code}: {error}"[:MAX_ERROR_TEXT],
        }
        self._connection.publish_nowait(
            request.reply, _encode(error.to_json()), head=head_of(headers)
        )
        request.count(time.perf_counter_ns() - request.arrived_ns, error.code)


def _encode(answer: Mapping[str, object]) -> bytes:
    return orjson.dumps(answer, default=_to_json, option=orjson.OPT_NON_STR_KEYS)


def _to_json(value: object) -> object:
    if isinstance(value, RawJson):
        return orjson.Fragment(value.data)
    return dict(value) if isinstance(value, Mapping) else str(value)
