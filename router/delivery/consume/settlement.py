"""Turn an outcome into exactly one ack. Pure, and the only place that turns a Retry into a dead
letter.

Done   -> effects, reply                                              +ACK
Retry  -> nothing, or the dead letter after the last allowed attempt  -NAK, or dead_letter_ack
Dead   -> the dead letter                                             dead_letter_ack
Hold   -> nothing                                                     no ack: the server redelivers
       after ack_wait
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from router.contracts.dead_letter import leave_out_payload
from router.core.clock import delay_after
from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Effect, Message, Reply
from router.core.outcome import (
    MAXDELIVER_EXHAUSTED,
    PROCESSING_ERROR,
    Commit,
    Dead,
    Done,
    Fault,
    Hold,
    Outcome,
    Retry,
    Then,
)
from router.core.user_functions import text_of
from router.delivery.consume.subscription import (
    ACK,
    DEAD_LETTER_OMITTED,
    DECLINED,
    SENT_BACK,
    Subscription,
)

HANDLER_FAULT = Fault("internal", "the handler failed")
STORAGE_FULL = Fault("storage_full", "what must be stored finds no room")  # the fault of a NAK
# codes of faults: why it is never stored
TOO_LARGE, STREAM_REFUSES, BUCKET_REFUSES = "too_large", "stream_refuses", "bucket_refuses"
UNAVAILABLE = Fault("broker_unavailable", "what it needs cannot be reached")  # the fault of a NAK


class Settlement(Struct, frozen=True):
    """What to do, in this order: publish the effects, commit, what follows from their publish acks,
    reply, ack.
    """

    effects: tuple[Effect, ...]
    reply: Reply | None
    commit: Commit | None
    ack: bytes | None
    is_final: bool  # the message is done
    then: Then | None = None


class PendingSettlement(Struct, frozen=True):
    """A message whose settlement is decided and not yet carried out."""

    message: Message
    outcome: Outcome
    settlement: Settlement


def decide_settlement(subscription: Subscription, message: Message, outcome: Outcome) -> Settlement:
    """The settlement for the outcome of one attempt (docs/reference/contracts.md#failures)."""
    match outcome:
        # its fields by name: as patterns they cost as much as the rest of this function
        case Done():
            return Settlement(
                outcome.effects, outcome.reply, outcome.commit, ACK, True, outcome.then
            )
        case Retry(fault, _, uses_attempt) if (
            uses_attempt and message.attempts >= subscription.options.max_attempts
        ):
            # The dead letter is an effect: until it is stored nothing is acked
            # (`decide_without_place`: when too many wait for that).
            return give_up(subscription, message, fault)
        case Retry(_, delay):
            wait = (
                delay
                if delay is not None
                else delay_after(message.attempts, subscription.options.backoff)
            )
            return Settlement((), None, None, nak(wait), False)
        case Dead(fault, reason, reply, commit):
            return Settlement(
                _dead_letter(subscription, message, reason, fault),
                reply or subscription.failure_reply(message, fault),
                commit,
                subscription.dead_letter_ack,
                True,
            )
        case Hold():
            return Settlement((), None, None, None, False)
        case _:
            assert_never(outcome)


def give_up(subscription: Subscription, message: Message, fault: Fault) -> Settlement:
    """Give up after the last allowed attempt: dead letter, failure reply, dead_letter_ack."""
    dead_letter = _dead_letter(subscription, message, MAXDELIVER_EXHAUSTED, fault)
    return Settlement(
        dead_letter,
        subscription.failure_reply(message, fault),
        None,
        subscription.dead_letter_ack,
        True,
    )


def decide_without_place(
    subscription: Subscription, pending: PendingSettlement
) -> tuple[str, PendingSettlement]:
    """Settle a message whose effects a full stream refused, and that has no place among those that
    wait for room. Returns the word for metrics and the settlement.

    A requester is answered at once: `overloaded`, or the failure, without a dead letter. Without a
    requester the message is NAKed and spends no attempt.
    """
    message, settlement, delay = (
        pending.message,
        pending.settlement,
        subscription.options.full_retry,
    )
    if subscription.overloaded is None:
        # Exhausted attempts stay exhausted: it is redelivered for its dead letter alone.
        instead = Retry(STORAGE_FULL, delay, uses_attempt=isinstance(pending.outcome, Retry))
        return SENT_BACK, PendingSettlement(
            message, instead, Settlement((), None, None, nak(delay), False)
        )
    if isinstance(pending.outcome, Done):
        return DECLINED, PendingSettlement(
            message,
            Done(),
            Settlement((), subscription.overloaded(message, delay, STORAGE_FULL), None, ACK, True),
        )
    return DEAD_LETTER_OMITTED, PendingSettlement(
        message,
        pending.outcome,
        Settlement((), settlement.reply, settlement.commit, settlement.ack, True),
    )


def shorten_dead_letter(pending: PendingSettlement) -> tuple[str | None, PendingSettlement]:
    """Settle a message whose dead letter is too large for its stream: without the payload; where it
    has none, without a letter.
    """
    settlement = pending.settlement
    effects = tuple(
        shorter
        for letter in settlement.effects
        if (shorter := leave_out_payload(letter)) is not None
    )
    what = None if effects else DEAD_LETTER_OMITTED
    instead = Settlement(
        effects, settlement.reply, settlement.commit, settlement.ack, settlement.is_final
    )
    return what, PendingSettlement(pending.message, pending.outcome, instead)


def decide_without_bucket(
    subscription: Subscription, message: Message
) -> tuple[str, PendingSettlement]:
    """Settle a message that needs an unavailable bucket while too many others wait for it: as
    `decide_without_place` does.
    """
    delay = subscription.options.full_retry
    if subscription.overloaded is None:
        return SENT_BACK, PendingSettlement(
            message,
            Retry(UNAVAILABLE, delay, uses_attempt=False),
            Settlement((), None, None, nak(delay), False),
        )
    reply = subscription.overloaded(message, delay, UNAVAILABLE)
    return DECLINED, PendingSettlement(message, Done(), Settlement((), reply, None, ACK, True))


def decide_following_failure(
    subscription: Subscription, message: Message, exc: BaseException
) -> Outcome:
    """Of an error in `then`. A broker that is away is not the message's fault: it comes again, and
    spends no attempt.
    """
    if isinstance(exc, BrokerUnavailable):
        return Retry(UNAVAILABLE, subscription.options.full_retry, uses_attempt=False)
    return outcome_of_error(subscription, message, exc)


def outcome_of(exc: BaseException) -> Dead | Retry:
    """The outcome of an error that a handler raised: Dead for Poison, else Retry."""
    return (
        Dead(Fault(exc.code, text_of(exc)), PROCESSING_ERROR)
        if isinstance(exc, Poison)
        else Retry(HANDLER_FAULT)
    )


def follow(pending: PendingSettlement, done: Done) -> PendingSettlement:
    """The same message, of which more is to be stored."""
    settlement = pending.settlement
    return PendingSettlement(
        pending.message,
        pending.outcome,
        Settlement(
            done.effects,
            settlement.reply,
            done.commit,
            settlement.ack,
            settlement.is_final,
            done.then,
        ),
    )


def outcome_of_error(subscription: Subscription, message: Message, exc: BaseException) -> Outcome:
    """As `outcome_of`; a failure of the handler is an alarm too."""
    outcome = outcome_of(exc)
    if isinstance(outcome, Retry):
        subscription.observer.on_handler_error(message, exc)
    return outcome


def nak(delay_s: float) -> bytes:
    """A NAK that asks for redelivery after `delay_s`; the server's floor is 10 ms."""
    return b'-NAK {"delay": %d}' % max(10_000_000, int(delay_s * 1e9))


def _dead_letter(
    subscription: Subscription, message: Message, reason: str, fault: Fault
) -> tuple[Effect, ...]:
    dead_letter = subscription.dead_letter(message, reason, fault)
    return (dead_letter,) if dead_letter is not None else ()
