"""Messages that the server has given up (docs/explanation/durability.md#safety-net): fetched by
their sequence, by its advisories, and by a sweep where an advisory was lost with the server.

    the durable's info, the stream's count, the durable's info again ── it has moved ──> count again, or at the next look
                       └─ the same ──> stranded = messages - num_pending - num_ack_pending, exactly
    stranded > 0 at two looks ──> publish the advisory of each message that was delivered before the first one, and that this process
                                  neither works on nor has sent back: unless these are more than are
                                  stranded

Only one process consumes the durable. So what waits for its ack is in its hands, or was in those of
a process that died: then it comes again after the ack wait, and until then there are more such
messages than stranded ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple, assert_never

import orjson

from router.agents.observer import AgentAlerts
from router.agents.topology import AgentSubscription, recovery_durable_of
from router.core.errors import BrokerRefused, RouterError
from router.core.ids import subject_matcher
from router.core.message import Effect, Message
from router.core.outcome import Commit, Dead, Done, Fault, Hold, Outcome, PublishAck, Retry
from router.delivery.consume.advisories import advisory_subject, read_stranded
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.process.observability import events, logs

# -- Recover messages that the server has given up (docs/explanation/durability.md#safety-net).
# That costs them no attempt.
#
# A delivery is no attempt: five crashes of the process strand a message that was never begun. So
# this fetches each message that the server gives up by its sequence, and hands it to the agent
# like any other; the store's own count decides when it is hopeless.
#
# advisory ──> fetch by sequence ──> the agent's batch ──> publish its messages, or its dead letter ──> delete it from the work queue
#
# `StrandedSweep` publishes the advisories that were lost with the server.


log = logs.logger(__name__)

Take = Callable[[Message], Awaitable[Outcome]]
BuildDeadLetter = Callable[[Message, str, Fault], Effect | None]


class AgentMaxDeliverRecovery:
    """For one subscription. `handle` is the handler of the advisories' consumer."""

    def __init__(
        self,
        subscription: AgentSubscription,
        jetstream: JetStream,
        *,
        take: Take,
        build_dead_letter: BuildDeadLetter,
        alerts: AgentAlerts,
        is_work_queue: bool,
    ) -> None:
        self._subscription = subscription
        self._jetstream = jetstream
        self._take = take
        self._build_dead_letter = build_dead_letter
        self._alerts = alerts
        self._is_work_queue = is_work_queue
        self._is_ours = subject_matcher(subscription.filters)

    async def handle(self, advisory: Message) -> Outcome:
        """Handle one advisory. Raises BrokerUnavailable."""
        stored = await read_stranded(self._jetstream, self._subscription.stream, advisory)
        if stored is None or not self._is_ours(stored.subject):
            return Done()  # settled after all, or a re-created stream
        message = to_message(stored, self._subscription)
        outcome = await self._take(message)
        log.warning(
            events.MESSAGE_RESCUED,
            stream=self._subscription.stream,
            sequence=stored.sequence,
            outcome=type(outcome).__name__,
        )
        self._alerts.on_recovered(self._subscription.durable, message)
        return self._translate_outcome(message, outcome)

    def _translate_outcome(self, message: Message, outcome: Outcome) -> Outcome:
        """The same outcome for an advisory: instead of an ack, the message is deleted from its
        queue.
        """
        match outcome:
            case Done(effects, _, commit):
                return Done(effects, commit=self._remove_after(message, commit))
            case Dead(fault, reason, _, commit):
                dead_letter = self._build_dead_letter(message, reason, fault)
                return Done(
                    (dead_letter,) if dead_letter is not None else (),
                    commit=self._remove_after(message, commit),
                )
            case Retry(fault, delay):
                return Retry(fault, delay, uses_attempt=False)  # the store counts
            case Hold():
                return outcome
            case _:
                assert_never(outcome)

    def _remove_after(self, message: Message, commit: Commit | None) -> Commit:
        async def run(publish_acks: Sequence[PublishAck]) -> None:
            if commit is not None and (committing := commit(publish_acks)) is not None:
                await committing
            if self._is_work_queue:
                with contextlib.suppress(BrokerRefused):  # it was settled meanwhile
                    await self._jetstream.ask(
                        f"STREAM.MSG.DELETE.{self._subscription.stream}",
                        {"seq": message.sequence, "no_erase": True},
                    )

        return run


def to_message(stored: StoredMessage, subscription: AgentSubscription) -> Message:
    """Build the message as a consumer would: the same stream time gives the same `ts` and the same
    dead letter's id.
    """
    stored_ns = nanos(stored.time)
    return Message(
        stored.subject,
        stored.data,
        stored.headers,
        subscription.stream,
        subscription.durable,
        stored.sequence,
        stored_ns,
        1,
        "",
    )


# -- Find messages of a work queue that the server has given up and whose advisories were lost
# with it.


COUNTS_IN_A_LOOK = 5  # while the durable moves


class DurablePosition(NamedTuple):
    """Where a durable is, by its info. Two that are equal say that nothing was stored, delivered or
    settled between them.
    """

    created: str
    consumer_seq: int  # the number of deliveries
    stream_seq: int  # of the last delivery
    num_pending: int
    num_ack_pending: int


class StrandedSweep:
    """The sweep of one subscription. `run` is a supervised child. `advisories`: the stream of
    advisories.
    """

    def __init__(
        self,
        subscription: AgentSubscription,
        jetstream: JetStream,
        *,
        advisories: str,
        is_in_hand: Callable[[Message], bool],
    ) -> None:
        self._subscription = subscription
        self._jetstream = jetstream
        self._advisories = advisories
        self._is_in_hand = is_in_hand

    async def run(self, every_s: float) -> None:
        """Look every `every_s` seconds until cancelled."""
        suspected_to = 0
        while True:
            await asyncio.sleep(every_s)
            with contextlib.suppress(RouterError):  # the broker is unavailable: tried again
                suspected_to = await self.look(suspected_to)

    async def look(self, suspected_to: int) -> int:
        """Look once, and return up to which sequence messages may be stranded; 0: none is.
        `suspected_to`: what the look before returned.

        Raises BrokerUnavailable, BrokerRefused.
        """
        if (counted := await self._count_stranded()) is None:
            return suspected_to
        stranded, delivered = counted
        if stranded > 0 and suspected_to and not await self._is_recovering():
            await self._publish_advisories(stranded, min(suspected_to, delivered))
        return delivered if stranded > 0 else 0

    async def _count_stranded(self) -> tuple[int, int] | None:
        """Count messages that are neither pending nor waiting for an ack, and return the last
        delivered sequence. None: it moves.
        """
        before = await self._read_position()
        for _ in range(COUNTS_IN_A_LOOK):
            there = sum(
                [await self._count(subject_filter) for subject_filter in self._subscription.filters]
            )
            after = await self._read_position()
            if before is not None and before == after:
                return there - after.num_pending - after.num_ack_pending, after.stream_seq
            before = after
        return None

    async def _read_position(self) -> DurablePosition | None:
        info = await self._jetstream.consumer(self._subscription.stream, self._subscription.durable)
        if info is None:
            return None
        last: dict[str, Any] = info["delivered"]
        return DurablePosition(
            info["created"],
            last["consumer_seq"],
            last["stream_seq"],
            info["num_pending"],
            info["num_ack_pending"],
        )

    async def _count(self, subjects: str) -> int:
        info = await self._jetstream.ask(
            f"STREAM.INFO.{self._subscription.stream}", {"subjects_filter": subjects}
        )
        return sum((info["state"].get("subjects") or {}).values())

    async def _is_recovering(self) -> bool:
        """Whether advisories wait or are handled: the recovery knows already what they name."""
        info = await self._jetstream.consumer(
            self._advisories, recovery_durable_of(self._subscription)
        )
        return info is not None and info["num_pending"] + info["num_ack_pending"] > 0

    async def _publish_advisories(self, stranded: int, last: int) -> None:
        """Publish the advisories that the server should have sent; none while it is not known which
        `stranded` messages they are.
        """
        subject = advisory_subject(self._subscription.stream, self._subscription.durable)
        lost: list[tuple[int, int]] = []
        async for message in self._list_not_in_hand(last):
            if len(lost) == stranded:
                return
            lost.append(message)
        for sequence, stored_ns in lost:
            body = {
                "stream": self._subscription.stream,
                "consumer": self._subscription.durable,
                "stream_seq": sequence,
            }
            # The stream's time: in a re-created stream the same sequence is another message.
            message_id = f"sweep:{self._subscription.stream}:{sequence}:{stored_ns}"
            await self._jetstream.publish(subject, orjson.dumps(body), {"Nats-Msg-Id": message_id})

    async def _list_not_in_hand(self, last: int) -> AsyncIterator[tuple[int, int]]:
        """Yield sequence and stored time (ns) of each message up to the sequence `last` that this
        process does not have in hand.
        """
        for subject_filter in self._subscription.filters:
            sequence = 0
            while stored := await self._jetstream.get_next(
                self._subscription.stream, subject_filter, sequence + 1
            ):
                if (sequence := stored.sequence) > last:
                    break
                message = to_message(stored, self._subscription)
                if not self._is_in_hand(message):
                    yield sequence, message.stored_ns
