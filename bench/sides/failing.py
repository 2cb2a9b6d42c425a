"""A consumer on the decide stream, with a handler that does nothing, or fails a few times before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.question import Measured
from bench.stretch import stretch
from router.core.message import Message
from router.core.outcome import Done, Fault, Outcome, PublishAck, Retry
from router.delivery.consume.consumer import Consumer
from router.delivery.consume.subscription import ConsumerOptions, NullObserver, Subscription
from router.process.memory import calm_collector

NOT_NOW = Retry(Fault("extension_unavailable", "the provider was away"), delay=0.0)
DONE = Done()


class Counted(NullObserver):
    """How many messages have their final ack."""

    done = 0

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None: ...

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        self.done += is_final


async def settle(ready: Ready, *, url: str, failures: int, first: int, last: int) -> Measured:
    """Every message fails so often, then is done."""
    config, counted = settings(url), Counted()
    stream, durable = config.streams.decide.name, config.decide.durable

    def handle(message: Message) -> Outcome:
        return NOT_NOW if message.attempts <= failures else DONE

    subscription = Subscription(
        stream=stream,
        durable=durable,
        options=ConsumerOptions(max_attempts=failures + 2),
        handle=handle,
        dead_letter=lambda *_: None,
        observer=counted,
    )
    async with jetstream_on(url) as jetstream, asyncio.TaskGroup() as tasks:
        consumer = Consumer(
            subscription,
            jetstream,
            attempts_bucket=config.buckets.attempts.name,
        )
        with calm_collector():
            working = tasks.create_task(consumer.run())
            figures = await stretch(lambda: counted.done, first, last)
        working.cancel()
    return figures
