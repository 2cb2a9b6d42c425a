"""Recover messages that the server has given up (docs/explanation/durability.md#safety-net). That
costs them no attempt.

A delivery is no attempt: five crashes of the process strand a message that was never begun. So this
fetches each message that the server gives up by its sequence, and hands it to the agent like any
other; the store's own count decides when it is hopeless.

    advisory ──> fetch by sequence ──> the agent's batch ──> publish its messages, or its dead letter ──> delete it from the work queue

`stranded_sweep` publishes the advisories that were lost with the server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

from router.agents.observer import AgentAlerts
from router.agents.topology import AgentSubscription
from router.core.errors import BrokerRefused
from router.core.ids import subject_matcher
from router.core.message import Effect, Message
from router.core.outcome import Commit, Dead, Done, Fault, Hold, Outcome, PublishAck, Retry
from router.delivery.consume.advisories import read_stranded
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.process.observability import events, logs

log = logs.logger(__name__)

Take = Callable[[Message], Awaitable[Outcome]]
Letter = Callable[[Message, str, Fault], Effect | None]


class AgentMaxDeliverRecovery:
    """For one subscription. `handle` is the handler of the advisories' consumer."""

    def __init__(
        self,
        subscription: AgentSubscription,
        jetstream: JetStream,
        *,
        take: Take,
        letter: Letter,
        alerts: AgentAlerts,
        is_work_queue: bool,
    ) -> None:
        self._subscription = subscription
        self._jetstream = jetstream
        self._take = take
        self._letter = letter
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
                letter = self._letter(message, reason, fault)
                return Done(
                    (letter,) if letter is not None else (),
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
