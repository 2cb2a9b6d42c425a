"""Are the messages consumed, and can a stream drop some of them before they are?

A stream with an age limit, or one that discards old messages when it is full, drops messages whether or not they were
consumed. The distance is how far the oldest unacknowledged message still is from that edge.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.operate.doctor.capacity import NEARLY_FULL
from router.operate.doctor.facts import ConsumerFacts, Facts, StreamFacts
from router.operate.doctor.finding import Finding, fail, ok, share, span, warn

SLOW_S = 10.0
STUCK_S = 60.0
HALF_WAY = 0.5
AT_THE_EDGE = 0.9


def consumer_lag(facts: Facts) -> Iterator[Finding]:
    for consumer in facts.consumers:
        yield _lag(consumer, facts.now)


def consumer_distance(facts: Facts) -> Iterator[Finding]:
    streams = {stream.spec.name: stream for stream in facts.streams}
    for consumer in facts.consumers:
        stream = streams.get(consumer.spec.stream)
        if stream is not None:
            yield _distance(consumer, stream, facts.now)


def _lag(consumer: ConsumerFacts, now: float) -> Finding:
    check, age = f"consumer {consumer.spec.durable}", _age(consumer, now)
    found = f"{consumer.pending} waiting, {consumer.unacknowledged} in hand, {consumer.waiting_pulls} pulls open"
    if age is not None:
        found += f", the oldest {span(age)} old"
    if consumer.held_back is not None:
        paused, _, remedy = consumer.held_back.partition(": ")
        return fail(check, f"{found}: {paused}", remedy)
    if consumer.waiting_pulls == 0 and consumer.pending:
        return fail(check, f"{found}: no process pulls", "start a router: `router serve`; if one runs, look at its /readyz")
    if consumer.waiting_pulls == 0 and not consumer.unacknowledged:
        return warn(check, f"{found}: no process pulls", "start a router: `router serve`")
    if age is not None and age > STUCK_S:
        return fail(check, found, "look at /readyz and the logs for what holds up the consumer; then add routers")
    if age is not None and age > SLOW_S:
        return warn(check, found, "add routers, or look for messages that are retried")
    return ok(check, found)


def _distance(consumer: ConsumerFacts, stream: StreamFacts, now: float) -> Finding:
    check, age = f"distance {consumer.spec.durable}", _age(consumer, now)
    if dropped := _count_dropped(consumer, stream):
        remedy = f"raise max_bytes or max_age of {stream.spec.name}, and add routers; the senders must publish them again"
        return fail(check, f"{dropped} messages were dropped before they were read", remedy)
    if age is None:
        return ok(check, "nothing waits, so nothing can be dropped unread")
    remedy = f"consume the backlog: add routers; or raise max_age and max_bytes of {stream.spec.name}"
    travelled = age / stream.max_age if stream.max_age else 0.0
    found = f"the oldest has used {share(travelled)} of the {span(stream.max_age)} it may wait" if stream.max_age else "no age limit"
    if travelled >= AT_THE_EDGE or _is_dropped_next(consumer, stream):
        return fail(check, f"{found}; it is dropped next", remedy)
    if travelled >= HALF_WAY:
        return warn(check, found, remedy)
    return ok(check, found)


def _count_dropped(consumer: ConsumerFacts, stream: StreamFacts) -> int:
    """Messages between the consumer's position and the first one of the stream: dropped unread. Counted until it consumes again."""
    reached = consumer.delivered_sequence
    return max(0, stream.first_sequence - 1 - reached) if reached is not None else 0


def _is_dropped_next(consumer: ConsumerFacts, stream: StreamFacts) -> bool:
    """Whether the stream is nearly full, drops its oldest messages, and the waiting one is among the oldest tenth."""
    if stream.discard != "old" or stream.max_bytes <= 0 or stream.size < NEARLY_FULL * stream.max_bytes:
        return False
    if consumer.oldest_sequence is None:
        return False
    return consumer.oldest_sequence - stream.first_sequence <= 0.1 * (stream.last_sequence - stream.first_sequence)


def _age(consumer: ConsumerFacts, now: float) -> float | None:
    return max(0.0, now - consumer.oldest_at) if consumer.oldest_at is not None else None
