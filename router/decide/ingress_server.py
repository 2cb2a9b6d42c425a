"""Serves `beamline.ingress.v1.message`: a message becomes a decide request in the decide stream, its sender receives an IngressAck.

One instance of the queue group handles each message, in its own task. The ack says that the message is stored; the decision goes to
the reply subject, as for any request without an inbox. The specification deprecates this service, so it is off by default
(docs/reference/contracts.md#ingress).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from router.config import DECIDE, Settings
from router.contracts.decision import INTERNAL
from router.contracts.ingress import INGRESS_SUBJECT, IngressAck, ack_bytes, ack_protobuf
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.core.message import NO_HEADERS
from router.decide.ingress_handler import IngressHandler, Store
from router.decide.model import DecideRules
from router.delivery.publish.readback import ConfirmByReadback
from router.delivery.wire.api import JetStream
from router.delivery.wire.calls import request_server
from router.delivery.wire.calls.request_server import ReplyAddresses, RequestServer
from router.delivery.wire.frame_parser import Headers
from router.operate.admin.service_error import OVERLOADED
from router.process.observability import ReadinessCheck

PROTOBUF = "application/x-protobuf"
REFUSALS: Mapping[str, tuple[str, str]] = {
    request_server.OVERLOADED: ("Too many messages in flight; send it again", OVERLOADED),
    request_server.STOPPING: ("The router is stopping; send it again", INTERNAL),
    request_server.FAILED: ("The message could not be handled; send it again", INTERNAL),
}


class IngressMessage(Struct, frozen=True):
    """One message; its sender may want no ack."""

    reply: str
    data: bytes
    headers: Mapping[str, str]


class IngressServer(RequestServer[IngressMessage]):
    def __init__(self, jetstream: JetStream, addresses: ReplyAddresses, settings: Settings, rules: DecideRules) -> None:
        self._config = settings.ingress
        super().__init__(jetstream.connection, "ingress", at_once=self._config.at_once)
        self._addresses = addresses
        self._readback = _readback(settings, jetstream)
        store = self._readback.store if self._readback is not None else _build_publish(jetstream, settings.decide.taken_subject)
        self._handler = IngressHandler(rules, settings.decide.subject, store)

    @property
    def check(self) -> ReadinessCheck:
        """For readiness."""
        is_serving = self.is_serving and (self._readback is None or self._readback.is_hearing)
        return ReadinessCheck(is_serving, "taking messages" if is_serving else "not taking messages")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self._readback is not None:
                tasks.create_task(self._readback.run())
            await self.serve(self.on_message, INGRESS_SUBJECT, queue_group=self._config.queue_group)

    def on_message(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        self.begin(IngressMessage(reply, data, headers or NO_HEADERS))

    async def answer(self, request: IngressMessage) -> None:
        self._send(request, await self._handler.handle(request.data, request.headers))

    def refuse(self, request: IngressMessage, reason: str) -> None:
        self._send(request, self._handler.build_error(*REFUSALS[reason]))

    def _send(self, request: IngressMessage, ack: IngressAck) -> None:
        if self._addresses.may_reach(request.reply):
            data = ack_protobuf(ack) if request.headers.get("Accept") == PROTOBUF else ack_bytes(ack)
            self._connection.publish_nowait(request.reply, data)


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
