"""Serves `beamline.ingress.v1.message`: a message becomes a decide request in the decide stream,
its sender receives an IngressAck.

One instance of the queue group handles each message, in its own task: `IngressHandler` builds the
ack, `IngressServer` receives and sends. The ack says that the message is stored; the decision goes
to the reply subject, as for any request without an inbox. The specification deprecates this
service, so it is off by default (docs/reference/contracts.md#ingress).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from router.config import DECIDE, Settings
from router.contracts.decision import INTERNAL, INVALID_REQUEST, NOTHING, UNAUTHORIZED
from router.contracts.field_readers import Object
from router.contracts.ingress import (
    ACCEPTED,
    ERROR,
    INGRESS_SUBJECT,
    REJECTED,
    IngressAck,
    IngressRequest,
    ack_bytes,
    ack_protobuf,
    ids_of,
    read_body_of,
    read_ingress,
)
from router.contracts.malformed import Malformed
from router.contracts.worker import WorkerMessageLimits
from router.core.clock import now_ms
from router.core.errors import BrokerRefused, BrokerUnavailable, Poison
from router.core.message import NO_HEADERS, Message
from router.core.outcome import Fault
from router.decide.model import DecideRules, read
from router.delivery.publish.readback import ConfirmByReadback
from router.delivery.wire.api import JetStream
from router.delivery.wire.calls import request_server
from router.delivery.wire.calls.request_server import ReplyAddresses, RequestServer
from router.delivery.wire.frames import Headers
from router.operate.admin.service import OVERLOADED
from router.process.observability import ReadinessCheck

# -- The server.

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
    def __init__(
        self,
        jetstream: JetStream,
        addresses: ReplyAddresses,
        settings: Settings,
        rules: DecideRules,
    ) -> None:
        self._config = settings.ingress
        super().__init__(jetstream.connection, "ingress", at_once=self._config.at_once)
        self._addresses = addresses
        self._readback = _readback(settings, jetstream)
        store = (
            self._readback.store
            if self._readback is not None
            else _build_publish(jetstream, settings.decide.taken_subject)
        )
        self._handler = IngressHandler(rules, settings.decide.subject, store)

    @property
    def check(self) -> ReadinessCheck:
        """For readiness."""
        is_serving = self.is_serving and (self._readback is None or self._readback.is_hearing)
        return ReadinessCheck(
            is_serving, "taking messages" if is_serving else "not taking messages"
        )

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
            data = (
                ack_protobuf(ack) if request.headers.get("Accept") == PROTOBUF else ack_bytes(ack)
            )
            self._connection.publish_nowait(request.reply, data)


def _readback(settings: Settings, jetstream: JetStream) -> ConfirmByReadback | None:
    """None where the decide stream sends publish acks itself."""
    if settings.reply.confirm == "stored":
        return None
    stream, within_s = DECIDE.read_stream(settings), settings.ingress.confirm_ms / 1000
    return ConfirmByReadback(
        jetstream,
        stream.name,
        settings.decide.taken_subject,
        window_s=stream.duplicate_window_ms / 1000,
        within_s=within_s,
    )


def _build_publish(jetstream: JetStream, subject: str) -> Store:
    async def store(body: bytes, headers: Mapping[str, str]) -> int:
        try:
            return int((await jetstream.publish(subject, body, headers))["seq"])
        except BrokerRefused as exc:
            raise BrokerUnavailable(f"{subject}: {exc}") from exc

    return store


# -- One message and its ack.
#
# rejected   it is malformed, the decide handler would refuse it, or its tenant is not served
# accepted   it is stored in the decide stream
# error      it may or may not be stored; if the client sends it again, it is decided once
# (`Nats-Msg-Id` is a digest of its ids)

# returns the stream sequence; raises BrokerUnavailable
Store = Callable[[bytes, Mapping[str, str]], Awaitable[int]]


class IngressHandler:
    """Reads, checks and publishes a message; `rules`: those by which the decide handler will read
    it from the stream.
    """

    def __init__(
        self, rules: DecideRules, subject: str, store: Store, now_ms: Callable[[], int] = now_ms
    ) -> None:
        self._rules = rules
        self._limits = WorkerMessageLimits(
            max_payload_bytes=rules.limits.max_payload_bytes, max_depth=rules.limits.max_depth
        )
        self._subject = subject
        self._store = store
        self._now_ms = now_ms

    async def handle(self, data: bytes, headers: Mapping[str, str]) -> IngressAck:
        body: Object = NOTHING
        try:
            body = read_body_of(data, self._limits)
            ingress = read_ingress(body, headers)
        except Malformed as refused:
            return self._ack(REJECTED, ids_of(body), str(refused), INVALID_REQUEST)
        ids = {**ids_of(body), "message_id": ingress.message_id}  # the id may be in a header
        if (refusal := self._refusal(ingress)) is not None:
            return self._ack(REJECTED, ids, *refusal)
        try:
            sequence = await self._store(ingress.body, ingress.headers)
        except Poison as refused:
            return self._ack(REJECTED, ids, str(refused), INVALID_REQUEST)
        except BrokerUnavailable:
            return self._ack(
                ERROR,
                ids,
                "It is not known whether the message was stored; send it again",
                INTERNAL,
            )
        return self._ack(ACCEPTED, ids, metadata={"sequence": str(sequence)})

    def build_error(self, message: str, code: str) -> IngressAck:
        """The ack of a message that was not read."""
        return self._ack(ERROR, {}, message, code)

    def _refusal(self, ingress: IngressRequest) -> tuple[str, str] | None:
        """Why the decide handler would refuse it: a text and its code."""
        if self._rules.tenants_allowed and ingress.tenant_id not in self._rules.tenants_allowed:
            return "This tenant is not served here", UNAUTHORIZED
        message = Message(self._subject, ingress.body, ingress.headers, "", "", 0, 0, 1, "")
        request = read(message, self._rules.limits).asked
        return (request.message, INVALID_REQUEST) if isinstance(request, Fault) else None

    def _ack(
        self,
        status: str,
        ids: Mapping[str, str],
        message: str | None = None,
        code: str | None = None,
        metadata: Mapping[str, str] = {},
    ) -> IngressAck:
        return IngressAck(
            status=status,
            timestamp_ms=self._now_ms(),
            message_id=ids.get("message_id", ""),
            correlation_id=ids.get("correlation_id", ""),
            message=message,
            error_code=code,
            metadata=metadata,
        )
