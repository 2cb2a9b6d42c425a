"""The child of the tree that serves operators: nats.micro for the manners, one bounded task for each request.

nats.micro runs the requests of an endpoint one after the other, so its callback only begins a task: a dry run that
calls slow extensions holds up nobody. Whatever happens to that task, there is one answer: what the service gives, why it
was declined, `internal` for what nobody foresaw (logged), and `internal` when the router stops under it.
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
from router.admin.declined import INTERNAL, OVERLOADED, Declined
from router.admin.door import Door
from router.admin.endpoint_stats import EndpointStats, MicroStats
from router.admin.service import INTERNAL_PREFIX, Service
from router.delivery.connection import Connection, head_of
from router.errors import BrokerUnavailable
from router.message import NO_HEADERS
from router.observability import ReadinessCheck, events, logs

if TYPE_CHECKING:
    from nats.micro.service import Service as MicroService

log = logs.logger(__name__)

NOT_SERVING = ReadinessCheck(False, "not serving")
LEAVE_S = 2.0  # how long a server may take to confirm that we left
ERROR_LETTERS = 200  # of an error's text in a header


class AdminRules(Struct, frozen=True, kw_only=True):
    """Settings. `at_once`: requests in hand; more are declined as `overloaded`."""

    queue_group: str = "router-decide-group"
    at_once: int = 64
    node_id: str = ""


class AdminStation:
    """Serves these services until it is cancelled; a restart makes it anew, what it counted stays."""

    def __init__(self, connection: Connection, door: Door, services: Sequence[Service], rules: AdminRules = AdminRules()) -> None:  # noqa: B008 - frozen
        self._connection = connection
        self._door = door
        self._services = services
        self._rules = rules
        self._stats = {service.name: EndpointStats() for service in services}
        self._alone = f"router-{uuid.uuid4().hex}"  # a queue group of one: its members hear everything
        self._in_hand = 0
        self.check = NOT_SERVING  # for readiness

    async def run(self) -> None:
        async with asyncio.TaskGroup() as hands:
            described = await add_service(
                self._connection,
                name="router-admin",
                version=__version__,
                description="Router: policies, extensions, breakers, decisions",
                metadata={"node_id": self._rules.node_id},
                queue_group=self._rules.queue_group,
                stats_handler=self._show,
            )
            try:
                for service in self._services:
                    await self._offer(described, service, hands)
                await self._connection.flush()
                self.check = ReadinessCheck(True, f"serving {len(self._services)} services")
                await asyncio.Event().wait()
            finally:
                self.check = NOT_SERVING
                await _leave(described)

    async def _offer(self, described: MicroService, service: Service, hands: asyncio.TaskGroup) -> None:
        async def begin(request: Request) -> None:
            reply = request._msg.reply  # nats.micro only offers to answer it, wherever it leads
            if not self._door.may_reach(reply, is_instance=service.prefix == INTERNAL_PREFIX):
                return  # nobody asked, or an address that is not an inbox
            hands.create_task(self._serve(service, reply, request.data, request.headers or NO_HEADERS))

        await described.add_endpoint(
            name=service.name,
            subject=service.subject,
            handler=begin,
            queue_group=self._alone if service.is_everywhere else None,
            metadata={"description": service.says, "request": service.asks, "response": service.gives},
        )

    async def _serve(self, service: Service, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        began = time.perf_counter_ns()
        self._in_hand += 1
        try:
            error = await self._answer(service, reply, data, headers)
        finally:
            self._in_hand -= 1
        self._stats[service.name].count_answer(time.perf_counter_ns() - began, error)

    async def _answer(self, service: Service, reply: str, data: bytes, headers: Mapping[str, str]) -> str | None:
        """Answer once, in any case; the code of what went wrong."""
        try:
            if self._in_hand > self._rules.at_once:
                raise Declined(OVERLOADED, "Too many requests in hand; ask again")
            answer = _encoded({"ok": True, **await service.answer(self._door.open(data, headers, service.subject, reply))})
            if len(answer) > self._connection.max_payload:  # the server would close the connection for it
                raise Declined(INTERNAL, "The answer is larger than the connection allows", {"cause": "too_large"})
            self._connection.publish_nowait(reply, answer)
        except asyncio.CancelledError:
            self._decline(reply, Declined(INTERNAL, "The router is stopping; ask again", {"cause": "stopping"}))
            raise
        except Declined as declined:
            return self._decline(reply, declined)
        except BrokerUnavailable as away:
            return self._decline(reply, Declined(INTERNAL, "The broker did not answer", {"cause": away.code}))
        except Exception as exc:  # an operator hears of any mistake of ours, and never waits for nothing
            log.exception(events.SERVICE_FAILED, service=service.name, error=type(exc).__name__)
            return self._decline(reply, Declined(INTERNAL, "The request could not be handled"))
        return None

    def _decline(self, reply: str, declined: Declined) -> str:
        headers = {ERROR_CODE_HEADER: str(declined.status), ERROR_HEADER: f"{declined.code}: {declined}"[:ERROR_LETTERS]}
        self._connection.publish_nowait(reply, _encoded(declined.as_error()), head=head_of(headers))
        return declined.code

    def _show(self, stats: MicroStats) -> Mapping[str, object]:
        self._stats[stats.name].fill(stats)
        return {}


async def _leave(described: MicroService) -> None:
    with contextlib.suppress(nats.errors.Error, OSError):  # TimeoutError is one: a server that hangs must not hold up the end
        async with asyncio.timeout(LEAVE_S):
            await described.stop()


def _encoded(answer: Mapping[str, object]) -> bytes:
    return orjson.dumps(answer, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)
