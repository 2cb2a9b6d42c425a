"""Observe an agent's consumers: pass publish acks to the store, count, and alert where a person
should know.

Rule: docs/reference/contracts.md#alerts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from router.agents.outgoing import PublishAckBuffer
from router.contracts.alert import CRITICAL, WARNING, Alert
from router.core.message import Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, Dead, Done, Outcome, PublishAck
from router.delivery.consume.subscription import LoggingObserver
from router.process.observability import events, logs

log = logs.logger(__name__)


class AgentStats(Struct):
    """Plain figures of one run, written on the event loop."""

    applied: int = 0  # acknowledged, duplicates included
    retried: int = 0
    dead: int = 0
    given_up: int = 0  # of the dead: those at the limit of attempts
    rescued: int = 0  # the server had given them up
    paused: set[str] = set()  # durables whose consumer waits until it can publish
    # durables of which some messages wait for a stream that refuses; the others go on
    waiting: set[str] = set()
    held_back: dict[str, str] = {}  # durables that an operator paused: until when, and what ends it


Raise = Callable[[Alert], None]


class AgentAlerts(Struct, frozen=True):
    """The figures and the callback for alerts."""

    stats: AgentStats
    alert: Raise

    def on_recovered(self, durable: str, message: Message) -> None:
        """Count a recovered message and raise an alert."""
        self.stats.rescued += 1
        self.alert(build_recovery_alert(durable, message))


class AgentObserver(LoggingObserver):
    """The observer of an agent's consumer."""

    def __init__(self, durable: str, publish_acks: PublishAckBuffer, alerts: AgentAlerts) -> None:
        super().__init__(durable)
        self._publish_acks = publish_acks
        self._stats = alerts.stats
        self._alert = alerts.alert

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None:
        self._publish_acks.note(publish_acks)

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        if type(outcome) is Done:
            self._stats.applied += 1
        elif isinstance(outcome, Dead):
            self._stats.dead += 1
            log.error(
                events.DEAD_LETTER_STORED,
                consumer=self._durable,
                sequence=message.sequence,
                reason=outcome.reason,
            )
            if outcome.reason == MAXDELIVER_EXHAUSTED:
                self._stats.given_up += 1
                self._alert(build_limit_alert(self._durable, message))
        else:
            self._stats.retried += 1

    def on_flow(self, cause: str | None) -> None:
        super().on_flow(cause)
        if cause is not None:
            self._stats.paused.add(self._durable)
        else:
            self._stats.paused.discard(self._durable)

    def on_server_pause(self, cause: str | None) -> None:
        super().on_server_pause(cause)
        if cause is not None:
            self._stats.held_back[self._durable] = cause
            self._alert(build_held_back_alert(self._durable, cause))
        else:
            self._stats.held_back.pop(self._durable, None)

    def on_storage(self, cause: str | None) -> None:
        super().on_storage(cause)
        if cause is not None:
            self._stats.waiting.add(self._durable)
            self._alert(build_storage_alert(self._durable, cause))
        else:
            self._stats.waiting.discard(self._durable)


def build_limit_alert(durable: str, message: Message) -> Alert:
    """The message was begun as often as allowed, and is given up."""
    return Alert(
        severity=WARNING,
        component="agent",
        cause=f"delivery_limit:{durable}",
        message=f"{durable} gave a message up at its delivery limit",
        metadata={"stream": message.stream, "sequence": message.sequence},
    )


def build_held_back_alert(durable: str, cause: str) -> Alert:
    """An operator paused the durable on the server."""
    return Alert(
        severity=CRITICAL,
        component="agent",
        cause=f"consumer_paused:{durable}",
        message="The server holds a durable back: nothing is delivered",
        metadata={"consumer": durable, "detail": cause},
    )


def build_storage_alert(durable: str, cause: str) -> Alert:
    """A stream refuses what some messages must store; only they wait."""
    return Alert(
        severity=CRITICAL,
        component="agent",
        cause=f"storage_refused:{durable}",
        message="A stream refuses (see the detail): messages that must publish to it wait",
        metadata={"consumer": durable, "detail": cause},
    )


def build_recovery_alert(durable: str, message: Message) -> Alert:
    """The server gave the message up; the agent did not."""
    return Alert(
        severity=WARNING,
        component="agent",
        cause=f"safety_net:{durable}",
        message=f"a message that the server stopped delivering to {durable} was fetched and handled",
        metadata={"stream": message.stream, "sequence": message.sequence},
    )
