"""Serves `beamline.ingress.v1.message`: a message becomes a decide request in the decide stream, its sender receives an IngressAck.

One instance of the queue group handles each message, in its own task. The ack says that the message is stored; the decision goes to
the reply subject, as for any request without an inbox. The specification deprecates this service, so it is off by default
(docs/contracts.md#ingress).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from router.app.admin import build_request_guard
from router.app.app_context import AppContext
from router.app.decide_subscription import build_decide_rules
from router.config import DECIDE, Settings
from router.contracts.decision import INTERNAL
from router.contracts.ingress import SUBJECT, IngressAck, ack_bytes, ack_protobuf
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.core.message import NO_HEADERS
from router.delivery.api import JetStream
from router.delivery.frame_parser import Headers
from router.delivery.readback import ConfirmByReadback
from router.operations.admin.service_error import OVERLOADED
from router.operations.observability import ReadinessCheck, events, logs
from router.services.ingress_handler import IngressHandler, Store

log = logs.logger(__name__)

PROTOBUF = "application/x-protobuf"


class IngressServer:
    """The child "ingress"."""

    def __init__(self, context: AppContext) -> None:
        self._connection = context.connection
        self._config = context.settings.ingress
        self._door = build_request_guard(context)
        subject = context.settings.decide.taken_subject
        self._readback = _readback(context.settings, context.jetstream)
        store = self._readback.store if self._readback is not None else _build_publish(context.jetstream, subject)
        self._handler = IngressHandler(build_decide_rules(context.settings), context.settings.decide.subject, store)
        self._in_flight = 0
        self._is_listening = False

    @property
    def check(self) -> ReadinessCheck:
        """For readiness."""
        is_serving = self._is_listening and (self._readback is None or self._readback.is_hearing)
        return ReadinessCheck(is_serving, "taking messages" if is_serving else "not taking messages")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as hands:
            if self._readback is not None:
                hands.create_task(self._readback.run())

            def hear(_subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
                hands.create_task(self._serve(reply, data, headers or NO_HEADERS))

            sid = await self._connection.subscribe_direct(SUBJECT, hear, self._config.queue_group)
            self._is_listening = True
            try:
                await asyncio.Event().wait()
            finally:
                self._is_listening = False
                await self._connection.unsubscribe(sid)

    async def _serve(self, reply: str, data: bytes, headers: Mapping[str, str]) -> None:
        self._in_flight += 1
        try:
            ack = await self._ack(data, headers)
        except asyncio.CancelledError:
            self._answer(reply, self._handler.build_error("The router is stopping; send it again", INTERNAL), headers)
            raise
        finally:
            self._in_flight -= 1
        self._answer(reply, ack, headers)

    def _answer(self, reply: str, ack: IngressAck, headers: Mapping[str, str]) -> None:
        if self._door.may_reach(reply):
            self._connection.publish_nowait(reply, ack_protobuf(ack) if headers.get("Accept") == PROTOBUF else ack_bytes(ack))

    async def _ack(self, data: bytes, headers: Mapping[str, str]) -> IngressAck:
        if self._in_flight > self._config.at_once:
            return self._handler.build_error("Too many messages in flight; send it again", OVERLOADED)
        try:
            return await self._handler.handle(data, headers)
        except Exception as exc:  # every message gets an ack
            log.exception(events.SERVICE_FAILED, service="ingress", error=type(exc).__name__)
            return self._handler.build_error("The message could not be handled; send it again", INTERNAL)


def _readback(settings: Settings, jetstream: JetStream) -> ConfirmByReadback | None:
    """None where the decide stream sends publish acks itself."""
    if settings.reply.confirm == "stored":
        return None
    stream, within_s = DECIDE.read_stream(settings), settings.ingress.confirm_ms / 1000
    return ConfirmByReadback(
        jetstream, stream.name, settings.decide.taken_subject, window_s=stream.duplicate_window_ms / 1000, within_s=within_s
    )


def _build_publish(jetstream: JetStream, subject: str) -> Store:
    async def store(body: bytes, headers: Mapping[str, str]) -> int:
        try:
            return int((await jetstream.publish(subject, body, headers))["seq"])
        except BrokerRefused as exc:
            raise BrokerUnavailable(f"{subject}: {exc}") from exc

    return store


def build_ingress_server(context: AppContext) -> IngressServer:
    station = IngressServer(context)
    context.checks["ingress"] = lambda: station.check
    return station
