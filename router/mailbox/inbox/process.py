"""CMD-051 ProcessInboxMessage and CMD-052 RouteToDeadLetter: what a handler's answer does to a message and its row.

    PROCESSED, ALREADY_PROCESSED    row marked                               +ACK        POL-047-005 (SD-11)
    POISON                          letter stored, row marked with why       +ACK        POL-047-006 (SD-12, SD-16)
    TRANSIENT                       error written down                       nothing     POL-047-007 (SD-13)
    TRANSIENT, the last delivery    letter stored, row marked with why       +ACK        we give up ourselves (X18)

The stamp is delivery's, after all that stands before it (SD-33). Letters are written by `letters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct

from router.crashpoints import crashpoint
from router.mailbox.inbox.adapter import Mark
from router.mailbox.inbox.handling import Answer, Arrival, HandlerResult
from router.mailbox.inbox.ledger import InboxLedger
from router.message import Message
from router.outcome import MAXDELIVER_EXHAUSTED, PROCESSING_ERROR, Dead, Done, Fault, Hold, Outcome, Receipt, Retry

POISON = "handler_poison"
TRANSIENT = "handler_transient"


class FailureRules(Struct, frozen=True, kw_only=True):
    """How long a message may fail. `nak_after_s` None: a failure is not acknowledged, word for word; else it is NAKed with that delay."""

    max_deliver: int = 20
    nak_after_s: float | None = None


class ProcessInboxMessage:
    """The end of both commands, the same for every handler."""

    def __init__(self, ledger: InboxLedger, rules: FailureRules = FailureRules()) -> None:  # noqa: B008 - frozen
        self._ledger = ledger
        self._rules = rules

    async def conclude(self, arrival: Arrival, answer: Answer) -> None:
        """Delivery hears of the outcome once the row says so."""
        arrival.later.resolve(await self._outcome(arrival, answer))

    async def _outcome(self, arrival: Arrival, answer: Answer) -> Outcome:
        match answer.result:
            case HandlerResult.PROCESSED | HandlerResult.ALREADY_PROCESSED:
                crashpoint("inbox_handled")
                await self._ledger.write(Mark(arrival.event.message_id, True))
                crashpoint("inbox_marked")
                return Done()
            case HandlerResult.POISON:
                return self._dead(arrival, Fault(POISON, answer.detail), PROCESSING_ERROR)
            case HandlerResult.TRANSIENT:
                return await self._failed(arrival, Fault(TRANSIENT, answer.detail))
            case _:
                assert_never(answer.result)

    async def _failed(self, arrival: Arrival, fault: Fault) -> Outcome:
        if self._is_last(arrival.message):
            return self._dead(arrival, fault, MAXDELIVER_EXHAUSTED)
        await self._ledger.write(Mark(arrival.event.message_id, False, fault.message))
        delay = self._rules.nak_after_s
        return Hold(fault) if delay is None else Retry(fault, delay)

    def _is_last(self, message: Message) -> bool:
        return message.deliveries >= self._rules.max_deliver > 0

    def _dead(self, arrival: Arrival, fault: Fault, reason: str) -> Dead:
        async def commit(_: Sequence[Receipt]) -> None:
            crashpoint("inbox_letter_stored")
            await self._ledger.write(given_up(arrival.event.message_id, reason, fault))

        return Dead(fault, reason, commit=commit)


def given_up(message_id: str, reason: str, fault: Fault) -> Mark:
    """The row of a message that stands in the dead letters: no backlog holds it, and no lost ack makes a second letter (X15)."""
    return Mark(message_id, True, f"{reason}: {fault.message}")
