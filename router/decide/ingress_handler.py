"""Handles one ingress message and builds its IngressAck.

rejected   it is malformed, the decide handler would refuse it, or its tenant is not served
accepted   it is stored in the decide stream
error      it may or may not be stored; if the client sends it again, it is decided once (`Nats-Msg-Id` is a digest of its ids)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from router.contracts.decision import INTERNAL, INVALID_REQUEST, UNAUTHORIZED
from router.contracts.field_readers import Object
from router.contracts.ingress import ACCEPTED, ERROR, REJECTED, IngressAck, IngressRequest, ids_of, read_body_of, read_ingress
from router.contracts.malformed import Malformed
from router.contracts.request import NOTHING
from router.contracts.worker import WorkerMessageLimits
from router.core.clock import now_ms
from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Message
from router.core.outcome import Fault
from router.decide.model import DecideRules, read

Store = Callable[[bytes, Mapping[str, str]], Awaitable[int]]  # returns the stream sequence; raises BrokerUnavailable


class IngressHandler:
    """Reads, checks and publishes a message; `rules`: those by which the decide handler will read it from the stream."""

    def __init__(self, rules: DecideRules, subject: str, store: Store, now_ms: Callable[[], int] = now_ms) -> None:
        self._rules = rules
        self._limits = WorkerMessageLimits(max_payload_bytes=rules.limits.max_payload_bytes, max_depth=rules.limits.max_depth)
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
            return self._ack(ERROR, ids, "It is not known whether the message was stored; send it again", INTERNAL)
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
        self, status: str, ids: Mapping[str, str], message: str | None = None, code: str | None = None, metadata: Mapping[str, str] = {}
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
