"""Serves the operators' services: nats.micro implements the service protocol, one task handles each request.

nats.micro runs the requests of an endpoint one after the other, so its callback only starts a task: a dry run that calls slow
extensions delays no other request. Every request gets one answer: that of the service, its ServiceError, `internal` for an
unexpected exception (logged), or `internal` if the router stops meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import nats.errors
import orjson
from msgspec import Struct
from nats.micro import add_service
from nats.micro.request import ERROR_CODE_HEADER, ERROR_HEADER, Request

from router import __version__
from router.core.errors import BrokerUnavailable
from router.core.message import NO_HEADERS
from router.delivery.connection import Connection, head_of
from router.operations.admin.endpoint_stats import EndpointStats, MicroStats
from router.operations.admin.request_guard import RequestGuard
from router.operations.admin.service import INTERNAL_PREFIX, Service
from router.operations.admin.service_error import INTERNAL, OVERLOADED, ServiceError
from router.operations.observability import ReadinessCheck, events, logs

if TYPE_CHECKING:
    from nats.micro.service import Service as MicroService

log = logs.logger(__name__)

NOT_SERVING = ReadinessCheck(False, "not serving")
STOP_TIMEOUT_S = 2.0  # for the server to confirm the end of the subscriptions
MAX_ERROR_TEXT = 200  # of an error's text in a header


class AdminRules(Struct, frozen=True, kw_only=True):
    """Settings. `at_once`: requests in flight; more are refused as `overloaded`."""

    queue_group: str = "router-decide-group"
    at_once: int = 64
    node_id: str = ""


class AdminServer:
    """Serves the services until it is cancelled. It can be run again, and keeps its counts."""

    def __init__(self, connection: Connection, guard: RequestGuard, services: Sequence[Service], rules: AdminRules = AdminRules()) -> None:  # noqa: B008 - frozen
        self._connection = connection
        self._guard = guard
        self._services = services
        self._rules = rules
        self._stats = {service.name: EndpointStats() for service in services}
        self._alone = f"router-{uuid.uuid4().hex}"  # a queue group of this instance only: it receives every request
        self._in_flight = 0
        self.check = NOT_SERVING  # for readiness

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            micro_service = await add_service(
                self._connection,
                name="router-admin",
                version=__version__,
                description="Router: policies, extensions, breakers, decisions",
                metadata={"node_id": self._rules.node_id},
                queue_group=self._rules.queue_group,
                stats_handler=self._fill_stats,
            )
            try:
                for service in self._services:
                    await self._add_endpoint(micro_service, service, tasks)
                await self._connection.flush()
                self.check = ReadinessCheck(True, f"serving {len(self._services)} services")
                await asyncio.Event().wait()
            finally:
                self.check = NOT_SERVING
                await _stop(micro_service)

    async def _add_endpoint(self, micro_service: MicroService, service: Service, tasks: asyncio.TaskGroup) -> None:
        async def begin(request: Request) -> None:
            reply = request._msg.reply  # nats.micro answers to any address
            if not self._guard.may_reach(reply, is_instance=service.prefix == INTERNAL_PREFIX):
                return  # no reply address, or one that is not an inbox
            tasks.create_task(self._serve(service, reply, request.data, request.headers or NO_HEADERS))

        await micro_service.add_endpoint(
            name=service.name,
            subject=service.subject,
            handler=begin,
            queue_group=self._alone if service.is_everywhere else None,
            metadata={"description": service.says, "request": service.asks, "response": service.gives},
        )

    async def _serve(self, service: Service, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        began = time.perf_counter_ns()
        self._in_flight += 1
        try:
            error = await self._answer(service, reply, data, headers)
        finally:
            self._in_flight -= 1
        self._stats[service.name].count_answer(time.perf_counter_ns() - began, error)

    async def _answer(self, service: Service, reply: str, data: bytes, headers: Mapping[str, str]) -> str | None:
        """Answer once, in any case. Returns the error code, or None."""
        try:
            if self._in_flight > self._rules.at_once:
                raise ServiceError(OVERLOADED, "Too many requests in flight; ask again")
            answer = _encode({"ok": True, **await service.answer(self._guard.open(data, headers, service.subject, reply))})
            if len(answer) > self._connection.max_payload:  # the server would close the connection for it
                raise ServiceError(INTERNAL, "The answer is larger than the connection allows", {"cause": "too_large"})
            self._connection.publish_nowait(reply, answer)
        except asyncio.CancelledError:
            self._refuse(reply, ServiceError(INTERNAL, "The router is stopping; ask again", {"cause": "stopping"}))
            raise
        except ServiceError as refusal:
            return self._refuse(reply, refusal)
        except BrokerUnavailable as unavailable:
            return self._refuse(reply, ServiceError(INTERNAL, "The broker did not answer", {"cause": unavailable.code}))
        except Exception as exc:  # the client gets an answer to any unexpected failure
            log.exception(events.SERVICE_FAILED, service=service.name, error=type(exc).__name__)
            return self._refuse(reply, ServiceError(INTERNAL, "The request could not be handled"))
        return None

    def _refuse(self, reply: str, error: ServiceError) -> str:
        headers = {ERROR_CODE_HEADER: str(error.status), ERROR_HEADER: f"{error.code}: {error}"[:MAX_ERROR_TEXT]}
        self._connection.publish_nowait(reply, _encode(error.to_json()), head=head_of(headers))
        return error.code

    def _fill_stats(self, stats: MicroStats) -> Mapping[str, object]:
        self._stats[stats.name].fill(stats)
        return {}


async def _stop(micro_service: MicroService) -> None:
    with contextlib.suppress(nats.errors.Error, OSError):  # TimeoutError is an OSError: a server that hangs must not delay the shutdown
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await micro_service.stop()


def _encode(answer: Mapping[str, object]) -> bytes:
    return orjson.dumps(answer, default=_to_json, option=orjson.OPT_NON_STR_KEYS)


def _to_json(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)
