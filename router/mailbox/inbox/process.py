"""CMD-051 ProcessInboxMessage and CMD-052 RouteToDeadLetter: what a handler's answer does to a
message and its row.

    PROCESSED, ALREADY_PROCESSED    row marked                               +ACK        POL-047-005
    POISON                          dead letter, row marked with why         +ACK        POL-047-006
    TRANSIENT                       error written into the row               nothing     POL-047-007
    TRANSIENT, the last attempt     dead letter, row marked with why         +ACK        we give up
                                    ourselves
    not asked, or not served        the row's attempt taken back             held        a service
                                    that is not there judges no message

The row counts attempts: a delivery that a restart spent, or for which no service was there, is
none. Delivery acks last, after all of that (docs/reference/requirements.md#sd-33). `dead_letters`
writes the dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from router.core.crashpoints import crashpoint
from router.core.deferred import Deferred
from router.core.outcome import (
    MAXDELIVER_EXHAUSTED,
    PROCESSING_ERROR,
    Dead,
    Done,
    Fault,
    Hold,
    Outcome,
    PublishAck,
    Retry,
)
from router.mailbox.inbox.adapter import InboxMark, InboxStatusWriter
from router.mailbox.inbox.handling import HandlerAnswer, HandlerResult, InboxDelivery
from router.mailbox.settings import InboxConfig

POISON = "handler_poison"
TRANSIENT = "handler_transient"


class ProcessInboxMessage:
    """The last step of both commands, the same for every handler."""

    def __init__(self, writer: InboxStatusWriter, settings: InboxConfig) -> None:
        self._writer = writer
        self._max_deliver = settings.max_deliver
        # None: a failed message gets no ack and no NAK, and is redelivered after its ack wait
        # (POL-047-007).
        self._nak_after_s = settings.nak_after_s

    async def conclude(self, delivery: InboxDelivery, answer: HandlerAnswer) -> None:
        """Write the row, then resolve the outcome for delivery."""
        delivery.later.resolve(await self._outcome(delivery, answer))

    def take_back(self, delivery: InboxDelivery, cause: str) -> Deferred[None]:
        """The handler did not judge the message: its row has one attempt fewer, and the cause, when
        the result is there.
        """
        delivery.is_taken_back = True
        return self._writer.write(InboxMark(delivery.event.message_id, False, cause, -1))

    async def hold(self, delivery: InboxDelivery, cause: str) -> None:
        """Take the attempt back, once for each delivery. A message that nothing keeps in flight
        ends here, with a Hold.
        """
        if not delivery.is_taken_back:
            await self.take_back(delivery, cause)
        if not delivery.may_be_held:
            delivery.later.resolve(Hold(Fault(TRANSIENT, cause)))

    async def _outcome(self, delivery: InboxDelivery, answer: HandlerAnswer) -> Outcome:
        match answer.result:
            case HandlerResult.PROCESSED | HandlerResult.ALREADY_PROCESSED:
                crashpoint("inbox_handled")
                await self._writer.write(_mark(delivery, is_processed=True))
                crashpoint("inbox_marked")
                return Done()
            case HandlerResult.POISON:
                return self._dead(delivery, Fault(POISON, answer.detail), PROCESSING_ERROR)
            case HandlerResult.TRANSIENT:
                return await self._on_failure(delivery, Fault(TRANSIENT, answer.detail))
            case _:
                assert_never(answer.result)

    async def _on_failure(self, delivery: InboxDelivery, fault: Fault) -> Outcome:
        if delivery.attempts >= self._max_deliver:
            return self._dead(delivery, fault, MAXDELIVER_EXHAUSTED)
        await self._writer.write(_mark(delivery, is_processed=False, error=fault.message))
        delay = self._nak_after_s
        return Hold(fault) if delay is None else Retry(fault, delay)

    def _dead(self, delivery: InboxDelivery, fault: Fault, reason: str) -> Dead:
        async def commit(_: Sequence[PublishAck]) -> None:
            crashpoint("inbox_dead_letter_stored")
            await self._writer.write(
                build_dead_mark(
                    delivery.event.message_id, reason, fault, int(delivery.is_taken_back)
                )
            )

        return Dead(fault, reason, commit=commit)


def _mark(delivery: InboxDelivery, *, is_processed: bool, error: str | None = None) -> InboxMark:
    """A message whose attempt was taken back has had it now."""
    return InboxMark(delivery.event.message_id, is_processed, error, int(delivery.is_taken_back))


def build_dead_mark(message_id: str, reason: str, fault: Fault, attempts: int = 0) -> InboxMark:
    """The mark of a message with a dead letter: no backlog counts it, and a lost ack makes no
    second dead letter.

    Rule: docs/reference/requirements.md#x15.
    """
    return InboxMark(message_id, True, f"{reason}: {fault.message}", attempts)
