"""What only the twin has: time that jumps, and a process that dies in memory. The rest is
tests/conformance.
"""

from router.core.message import Message, Reply
from router.core.outcome import Done, Fault, Retry
from tests.support.delivery import RecordingObserver, a_subscription
from tests.support.in_memory_consumer import InMemoryConsumer

FAULT = Fault("busy", "not now")


async def test_waiting_costs_no_time() -> None:
    twin = InMemoryConsumer(
        a_subscription(lambda _: Retry(FAULT), backoff=(60.0, 3600.0), max_attempts=3)
    )
    twin.publish("work", b"x")
    await twin.run()
    assert [(step.at, step.value) for step in twin.steps if step.kind == "started"] == [
        (0.0, b"x"),
        (60.0, b"x"),
        (3660.0, b"x"),
    ]
    assert [effect.data for effect in twin.list_stored("letters")] == [b"maxdeliver_exhausted:busy"]


async def test_a_handler_may_wait() -> None:
    async def handle(message: Message) -> Done:
        return Done(reply=Reply(message.headers["x"].encode()))

    twin = InMemoryConsumer(a_subscription(handle))
    sequence = twin.publish("work", b"", {"x": "y"})
    await twin.run()
    assert ([step.value for step in twin.steps if step.kind == "replied"], twin.acks(sequence)) == (
        [b"y"],
        [b"+ACK"],
    )


async def test_a_death_takes_along_what_the_process_knew_of_the_messages_it_sent_away() -> None:
    watcher, attempts = RecordingObserver(), []

    def handle(message: Message) -> Retry | Done:
        attempts.append((message.sequence, message.attempts))
        return Retry(FAULT, delay=5.0) if message.deliveries == 1 else Done()

    twin = InMemoryConsumer(
        a_subscription(handle, observer=watcher),
        dies_on=lambda message: message.sequence == 2 and message.attempts == 1,
    )
    for _ in range(3):
        twin.publish("work")
    await twin.run()
    assert watcher.timeouts == [1, 2]  # 3 was sent away by the process that lives
    assert sorted(attempts) == [(1, 1), (1, 2), (2, 2), (3, 1), (3, 2)]
