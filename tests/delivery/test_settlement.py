from typing import Any

import orjson
import pytest

from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Effect, Reply
from router.core.outcome import Dead, Done, Fault, Hold, Outcome, Retry
from router.delivery.consume.settlement import decide_settlement, give_up, nak, outcome_of
from tests.support.delivery import SORRY, a_delivery, a_subscription

FAULT = Fault("broken", "it is broken")
EFFECT = Effect("usage", b"1", "u-1")


def delay_of(ack: bytes | None) -> float:
    assert ack is not None
    assert ack.startswith(b"-NAK ")
    return float(orjson.loads(ack[5:])["delay"]) / 1e9


async def test_done_stores_its_effects_then_replies_and_acks() -> None:
    async def commit(_: Any) -> None: ...

    settlement = decide_settlement(
        a_subscription(), a_delivery(), Done((EFFECT,), Reply(b"yes"), commit)
    )
    assert (settlement.effects, settlement.reply, settlement.commit) == (
        (EFFECT,),
        Reply(b"yes"),
        commit,
    )
    assert (settlement.ack, settlement.is_final) == (b"+ACK", True)


@pytest.mark.parametrize(("attempts", "delay"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 4.0), (9, 4.0)])
def test_a_retry_waits_by_its_start_and_the_last_delay_repeats(attempts: int, delay: float) -> None:
    settlement = decide_settlement(
        a_subscription(max_attempts=10), a_delivery(attempts=attempts), Retry(FAULT)
    )
    assert (settlement.effects, settlement.reply, settlement.is_final) == ((), None, False)
    assert delay_of(settlement.ack) == delay


def test_a_retry_may_name_its_own_delay() -> None:
    assert delay_of(decide_settlement(a_subscription(), a_delivery(), Retry(FAULT, 0.3)).ack) == 0.3


@pytest.mark.parametrize("delay", [0.0, 0.001, -1.0])
def test_no_nak_asks_for_less_than_the_servers_floor(delay: float) -> None:
    assert delay_of(nak(delay)) == 0.01


@pytest.mark.parametrize("word", [b"+ACK", b"+TERM exhausted"])
def test_the_last_allowed_retry_is_a_dead_letter_a_failure_reply_and_the_dead_letter_ack(
    word: bytes,
) -> None:
    settlement = decide_settlement(
        a_subscription(dead_letter_ack=word), a_delivery(attempts=3), Retry(FAULT)
    )
    assert [effect.data for effect in settlement.effects] == [b"maxdeliver_exhausted:broken"]
    assert (settlement.reply, settlement.ack, settlement.is_final) == (Reply(SORRY), word, True)


@pytest.mark.parametrize("attempts", [3, 50])
def test_a_retry_that_spends_nothing_is_never_the_last(attempts: int) -> None:
    settlement = decide_settlement(
        a_subscription(), a_delivery(attempts=attempts), Retry(FAULT, uses_attempt=False)
    )
    assert (settlement.effects, settlement.is_final) == ((), False)


def test_dead_is_a_dead_letter_with_its_own_reason_at_the_first_start() -> None:
    settlement = decide_settlement(
        a_subscription(dead_letter_ack=b"+TERM"), a_delivery(), Dead(FAULT, "processing_error")
    )
    assert [effect.data for effect in settlement.effects] == [b"processing_error:broken"]
    assert (settlement.reply, settlement.ack, settlement.is_final) == (Reply(SORRY), b"+TERM", True)


def test_dead_may_bring_its_own_reply() -> None:
    assert decide_settlement(
        a_subscription(), a_delivery(), Dead(FAULT, reply=Reply(b"no"))
    ).reply == Reply(b"no")


def test_hold_says_nothing() -> None:
    settlement = decide_settlement(a_subscription(), a_delivery(attempts=3), Hold(FAULT))
    assert (settlement.effects, settlement.reply, settlement.ack, settlement.is_final) == (
        (),
        None,
        None,
        False,
    )


@pytest.mark.parametrize("outcome", [Dead(FAULT), Retry(FAULT)])
def test_without_dead_letters_the_dead_letter_ack_is_still_sent(outcome: Outcome) -> None:
    settlement = decide_settlement(
        a_subscription(dead_letter=lambda *_: None), a_delivery(attempts=3), outcome
    )
    assert (settlement.effects, settlement.ack, settlement.is_final) == ((), b"+ACK", True)


def test_giving_up_has_one_reason_whatever_the_fault() -> None:
    settlement = give_up(a_subscription(), a_delivery(), Fault("killed", ""))
    assert [effect.data for effect in settlement.effects] == [b"maxdeliver_exhausted:killed"]


def test_a_raised_poison_is_dead_and_anything_else_is_tried_again() -> None:
    assert outcome_of(Poison("never")) == Dead(
        Fault("processing_error", "never"), "processing_error"
    )
    assert [
        type(outcome_of(exc)) for exc in (ValueError(), TimeoutError(), BrokerUnavailable(""))
    ] == [Retry] * 3
