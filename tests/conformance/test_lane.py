"""What a subscription promises, once for the twin and once for a real Consumer on a real server.

Times are lower bounds, strict but for the milliseconds between the server's clock and ours.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import pytest

from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Effect, Message, Reply
from router.core.outcome import Dead, Done, Fault, Hold, Outcome, PublishAck, Retry
from tests.support.conformance import (
    ACKED,
    PACE,
    REPLIED,
    STARTED,
    STORED,
    Driver,
    Script,
    at_work,
    drive_in_memory,
    drive_on_server,
    times_of,
)

FAULT = Fault("busy", "not now")
CLOCKS_S = 0.005
SHORT_WAIT_S = 0.4  # of an acknowledgement

Run = Callable[[Script], AbstractAsyncContextManager[Driver]]


@pytest.fixture(params=["twin", "server"])
def run(request: pytest.FixtureRequest, prefix: str) -> Run:
    if request.param == "twin":
        return drive_in_memory
    url = request.getfixturevalue("nats_url")
    return lambda script: drive_on_server(script, url, prefix)


class Meaning:
    """A handler that answers (or raises) one thing after the other, the last one for ever, and
    remembers its starts.
    """

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.attempts: list[int] = []
        self._outcomes = outcomes

    def __call__(self, message: Message) -> Outcome:
        self.attempts.append(message.attempts)
        outcome = self._outcomes[min(len(self.attempts), len(self._outcomes)) - 1]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def an_effect(driver: Driver, effect_id: str = "e-1") -> Effect:
    return Effect(driver.effects, b"effect", effect_id)


async def test_done_is_acked_once_with_its_effects_stored(run: Run) -> None:
    async with run(Script(handle=lambda message: Done((an_effect(driver),)))) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        assert at_work(driver, ACKED, sequence) == [b"+ACK"]
        assert await driver.stored_on(driver.effects) == [b"effect"]


async def test_the_reply_comes_after_the_publish_acks_and_before_the_ack(run: Run) -> None:
    async with run(
        Script(handle=lambda message: Done((an_effect(driver),), Reply(b"yes")))
    ) as driver:
        await driver.publish(b"x")
        await driver.finish()
        assert [step.kind for step in driver.steps] == [STARTED, STORED, REPLIED, ACKED]
        assert at_work(driver, REPLIED) == [b"yes"]


async def test_a_commit_runs_between_the_publish_acks_and_the_ack(run: Run) -> None:
    seen: list[object] = []

    async def commit(publish_acks: Sequence[PublishAck]) -> None:
        seen.append(
            (
                [ack.id for ack in publish_acks],
                [step.kind for step in driver.steps],
                await driver.stored_on(driver.effects),
            )
        )

    async with run(
        Script(handle=lambda message: Done((an_effect(driver),), Reply(b"yes"), commit))
    ) as driver:
        await driver.publish(b"x")
        await driver.finish()
        assert seen == [(["e-1"], [STARTED, STORED], [b"effect"])]
        assert [step.kind for step in driver.steps] == [STARTED, STORED, REPLIED, ACKED]


async def test_a_commit_that_fails_brings_the_message_again(run: Run) -> None:
    fails = iter([True, False])

    async def commit(_: Sequence[PublishAck]) -> None:
        if next(fails):
            raise OSError("away")

    async with run(
        Script(handle=lambda message: Done((an_effect(driver),), Reply(b"yes"), commit))
    ) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        assert len(times_of(driver, sequence)) == 2
        assert (at_work(driver, REPLIED), await driver.stored_on(driver.effects)) == (
            [b"yes"],
            [b"effect"],
        )


@pytest.mark.parametrize("waits", [True, False])
async def test_what_follows_from_the_publish_acks_is_stored_before_the_reply(
    run: Run, waits: bool
) -> None:
    async def find(done: Done | None) -> Done | None:
        return done

    def follow(publish_acks: Sequence[PublishAck]) -> Done | Awaitable[Done | None] | None:
        of = publish_acks[0].id
        done = Done((an_effect(driver, "e-2"),), then=follow) if of == "e-1" else None
        return find(done) if waits else done

    async with run(
        Script(handle=lambda message: Done((an_effect(driver),), Reply(b"yes"), then=follow))
    ) as driver:
        await driver.publish(b"x")
        await driver.finish()
        assert [step.kind for step in driver.steps] == [STARTED, STORED, STORED, REPLIED, ACKED]
        assert len(await driver.stored_on(driver.effects)) == 2


async def test_an_effect_that_was_stored_before_is_told_to_what_follows(run: Run) -> None:
    seen: list[bool] = []

    def follow(publish_acks: Sequence[PublishAck]) -> None:
        seen.append(publish_acks[0].is_duplicate)

    async with run(
        Script(handle=lambda message: Done((an_effect(driver),), then=follow))
    ) as driver:
        await driver.publish(b"x")
        await driver.finish()
        await driver.publish(b"y")
        await driver.finish()
        assert seen == [False, True]


@pytest.mark.parametrize("dead_letter_ack", [b"+ACK", b"+TERM exhausted"])
async def test_a_retry_comes_spaced_and_then_leaves_one_dead_letter_and_its_ack(
    run: Run, dead_letter_ack: bytes
) -> None:
    meaning = Meaning(Retry(FAULT))
    async with run(Script(handle=meaning, dead_letter_ack=dead_letter_ack)) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        first, second, third = times_of(driver, sequence)
        assert second - first >= PACE.backoff[0] - CLOCKS_S
        assert third - second >= PACE.backoff[1] - CLOCKS_S
        assert third - first < 10.0
        assert meaning.attempts == [1, 2, 3]
        assert await driver.stored_on(driver.letters) == [b"maxdeliver_exhausted:busy"]
        assert at_work(driver, ACKED, sequence)[2:] == [dead_letter_ack]
        assert at_work(driver, REPLIED) == [b"sorry"]


async def test_a_handler_that_raises_is_tried_again_and_may_succeed(run: Run) -> None:
    async with run(
        Script(handle=Meaning(ValueError("oops"), ValueError("oops"), Done()))
    ) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        assert at_work(driver, ACKED, sequence)[-1] == b"+ACK"
        assert await driver.stored_on(driver.letters) == []


@pytest.mark.parametrize("dead_letter_ack", [b"+ACK", b"+TERM hopeless"])
async def test_dead_is_a_dead_letter_at_once(run: Run, dead_letter_ack: bytes) -> None:
    async with run(Script(handle=Meaning(Dead(FAULT)), dead_letter_ack=dead_letter_ack)) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        assert len(times_of(driver, sequence)) == 1
        assert await driver.stored_on(driver.letters) == [b"validation_failed:busy"]
        assert at_work(driver, ACKED, sequence) == [dead_letter_ack]


async def test_a_raised_poison_is_a_dead_letter_at_once(run: Run) -> None:
    async with run(Script(handle=Meaning(Poison("never")))) as driver:
        await driver.publish(b"x")
        await driver.finish()
        assert await driver.stored_on(driver.letters) == [b"processing_error:processing_error"]


async def test_what_spends_nothing_never_exhausts(run: Run) -> None:
    busy = Retry(FAULT, delay=0.01, uses_attempt=False)
    meaning = Meaning(*[busy] * 6, Done())
    async with run(Script(handle=meaning, max_attempts=2)) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        assert meaning.attempts == [1] * 7
        assert (at_work(driver, ACKED, sequence)[-1], await driver.stored_on(driver.letters)) == (
            b"+ACK",
            [],
        )


async def test_a_refused_effect_pauses_the_consumer_and_nothing_is_acked_until_it_is_stored(
    run: Run,
) -> None:
    async with run(
        Script(
            handle=lambda message: Done(
                (an_effect(driver, message.data.decode()),), Reply(message.data)
            )
        )
    ) as driver:
        await driver.refuse_storing()
        sequences = [await driver.publish(data) for data in (b"1", b"2", b"3")]
        await driver.until_paused()
        assert (at_work(driver, ACKED), at_work(driver, REPLIED)) == ([], [])
        await driver.allow_storing()
        await driver.finish()
        assert [at_work(driver, ACKED, sequence) for sequence in sequences] == [[b"+ACK"]] * 3
        assert [len(times_of(driver, sequence)) for sequence in sequences] == [1, 1, 1]
        assert (sorted(at_work(driver, REPLIED)), len(await driver.stored_on(driver.effects))) == (
            [b"1", b"2", b"3"],
            3,
        )


async def test_a_refused_dead_letter_pauses_the_consumer_too_and_uses_no_attempt(run: Run) -> None:
    async with run(Script(handle=Meaning(Dead(FAULT)))) as driver:
        await driver.refuse_storing()
        sequence = await driver.publish(b"x")
        await driver.until_paused()
        assert at_work(driver, ACKED) == []
        await driver.allow_storing()
        await driver.finish()
        assert (len(times_of(driver, sequence)), await driver.stored_on(driver.letters)) == (
            1,
            [b"validation_failed:busy"],
        )


@pytest.mark.parametrize("answers", ["at_once", "awaited", "later"])
async def test_a_handler_that_finds_the_broker_away_pauses_the_consumer_and_is_begun_again_until_it_works(
    run: Run, answers: str
) -> None:
    is_away = True
    attempts: set[int] = set()

    async def awaited(outcome: Outcome) -> Outcome:
        return answer(outcome)

    def later(outcome: Outcome) -> Deferred[Outcome]:
        come: Deferred[Outcome] = Deferred()
        asyncio.get_running_loop().call_soon(
            come.resolve, BrokerUnavailable("away") if is_away else outcome
        )
        return come

    def answer(outcome: Outcome) -> Outcome:
        if is_away:
            raise BrokerUnavailable("the bucket is away")
        return outcome

    def handle(message: Message) -> Outcome | Awaitable[Outcome]:
        attempts.add(message.attempts)
        done = Done((an_effect(driver, message.data.decode()),), Reply(message.data))
        return {"at_once": answer, "awaited": awaited, "later": later}[answers](done)

    async with run(Script(handle=handle)) as driver:
        sequences = [await driver.publish(data) for data in (b"1", b"2", b"3")]
        await driver.until_paused()
        assert (at_work(driver, ACKED), at_work(driver, REPLIED)) == ([], [])
        is_away = False
        await driver.finish()
        assert [at_work(driver, ACKED, sequence) for sequence in sequences] == [[b"+ACK"]] * 3
        assert (
            attempts,
            len(await driver.stored_on(driver.effects)),
            await driver.stored_on(driver.letters),
        ) == ({1}, 3, [])


async def test_effects_with_one_id_are_stored_once(run: Run) -> None:
    async with run(Script(handle=lambda message: Done((an_effect(driver, "same"),)))) as driver:
        for data in (b"1", b"2", b"3"):
            await driver.publish(data)
        await driver.finish()
        assert (at_work(driver, ACKED), await driver.stored_on(driver.effects)) == (
            [b"+ACK"] * 3,
            [b"effect"],
        )


async def test_what_is_held_comes_again_after_the_ack_wait(run: Run) -> None:
    meaning = Meaning(Hold(FAULT), Done())
    async with run(Script(handle=meaning, ack_wait=SHORT_WAIT_S)) as driver:
        sequence = await driver.publish(b"x")
        await driver.finish()
        _, second = times_of(driver, sequence)
        # the server's wait begins before the handler does
        assert second - driver.published[sequence] >= SHORT_WAIT_S - CLOCKS_S
        assert (meaning.attempts, at_work(driver, ACKED, sequence)) == ([1, 2], [b"+ACK"])


async def test_a_message_that_kills_its_handlers_process_is_given_up_unread_and_takes_no_neighbour_along(
    run: Run,
) -> None:
    async with run(
        Script(handle=Meaning(Done()), deadly=b"deadly", ack_wait=SHORT_WAIT_S)
    ) as driver:
        sequences = [await driver.publish(data) for data in (b"1", b"deadly", b"3")]
        await driver.finish()
        assert len(times_of(driver, sequences[1])) == 3
        assert await driver.stored_on(driver.letters) == [b"maxdeliver_exhausted:internal"]
        assert [at_work(driver, ACKED, sequence)[-1] for sequence in sequences] == [b"+ACK"] * 3


async def test_what_is_sent_away_for_less_comes_back_first(run: Run) -> None:
    waits = {b"1": 0.3, b"2": 0.1, b"3": 0.2}

    def handle(message: Message) -> Outcome:
        return (
            Retry(FAULT, waits[message.data])
            if message.attempts == 1 and message.data in waits
            else Done()
        )

    async with run(Script(handle=handle)) as driver:
        for data in (b"1", b"2", b"3", b"4"):
            await driver.publish(data)
        await driver.finish()
        assert at_work(driver, STARTED) == [b"1", b"2", b"3", b"4", b"2", b"3", b"1"]
