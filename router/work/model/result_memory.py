"""What this instance remembers of results: which outcomes it has metered, which assignments have
taught it, and what follows where another outcome comes later.

`RecentOutcomes` counts a repeated outcome as repeated. It only counts. The stream (by Nats-Msg-Id)
and later the lake decide whether a usage event is stored twice, because an instance that forgot, or
another instance, must give the same result. So a duplicate also gets its usage event, since nothing
here knows whether the first one was stored; `delivery.publish.known_effects` knows that of the
events this instance stored, and does not publish them again. The PubAck's `duplicate` mark, which
delivery's observer reads, says how many duplicates all instances together had.

`FirstResults` moves the figures of a provider, once for each known assignment. A result is input: a
worker may name any tenant and any provider in it, and may send it again with every status. So the
figures and the breakers get a result only if its assignment is known, they get the provider that
the assignment names, and they get one outcome for each assignment, the first. A worker that repeats
itself, or forges results, changes nothing. The memory holds known assignments only, so a flood of
invented ids cannot push one out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from sys import intern
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from router.budgets.model.held_cost import OUTCOME, adjust_event, difference, outcome_identity
from router.contracts.assignment import Assignment
from router.contracts.result import ExecResult
from router.contracts.usage import UsageEvent, identity
from router.core.bounded_cache import PartedCache
from router.core.clock import Clock, steady
from router.core.message import Message

# -- What follows where an assignment has its bill already, and another outcome comes
# (docs/reference/contracts.md#later-outcomes). Pure.
#
# the first is                        the later one is        then
# timeout, cancelled                  success, error          an adjustment: the later one's cost
#                                     counts in place of the first
# timeout, cancelled                  timeout, cancelled      nothing
# success, error                      any                     nothing: they are final
# an invocation                       success, error, dearer  an adjustment: the work cost more
#                                     than the invocation alone
# an invocation                       any other               nothing: the router saw what it
#                                     cost, and the worker says it
# held                                any                     nothing: an operator decides
# older than a duplicate window       any                     nothing
#
# The first outcome that replaces another is final too: the adjustment's identity follows from the
# bill alone, so a second one is a duplicate of it. An adjustment may be above the bound as a bill
# may be, and is held then.


REPLACED = frozenset({"timeout", "cancelled"})
FINAL = frozenset({"success", "error"})


class MeteredEvent(Struct, frozen=True):
    """A usage event as the stream has it. `stored_ns`: stream time; `reservation`: its header.

    `is_invocation`: by a header that only the router sets; a job's type may be any text.
    """

    event: UsageEvent
    stored_ns: int
    reservation: str | None = None
    is_invocation: bool = False


def may_follow(event: UsageEvent) -> bool:
    """Whether it matters what is stored under the same identity."""
    return event.told_cost is not None or (event.status in FINAL and event.adjustment is None)


def is_same(stored: UsageEvent, event: UsageEvent) -> bool:
    """Whether the stored event tells the same outcome: it may be this one, whose process died."""
    told, tells = (
        (stored.status, stored.cost, stored.told_cost),
        (event.status, event.cost, event.told_cost),
    )
    return told == tells and stored.adjustment == event.adjustment


def make_correction(
    first: MeteredEvent, later: UsageEvent, stored_ns: int, window_ns: int
) -> UsageEvent | None:
    """Return the adjustment by which the later outcome replaces the first; None: it does not.
    `stored_ns`: when its result was.
    """
    event = first.event
    is_open = is_dearer(event, later) if first.is_invocation else is_replaced(event, later)
    if not is_open or stored_ns - first.stored_ns > window_ns:
        return None
    amount = difference(later.cost, event.cost)
    if not amount and later.told_cost is None:
        return None
    reason = f"{event.status}, then {later.status}"
    made = adjust_event(
        OUTCOME, event, amount, event_id=outcome_identity(identity(event)), reason=reason
    )
    if later.told_provider_id is not None:
        made = replace(made, told_provider_id=later.told_provider_id)
    return (
        made
        if later.told_cost is None
        else replace(made, told_cost=_number(difference(later.told_cost, event.cost)))
    )


def is_replaced(first: UsageEvent, later: UsageEvent) -> bool:
    """Whether the later outcome's cost counts in place of the first one's."""
    is_open = first.status in REPLACED and first.told_cost is None and first.adjustment is None
    return is_open and later.status in FINAL and later.adjustment is None


def is_dearer(first: UsageEvent, later: UsageEvent) -> bool:
    """Whether work cost more than the invocation that is its bill: its tenant may invoke a provider
    for next to nothing under its id.
    """
    return (
        first.adjustment is None
        and later.adjustment is None
        and later.status in FINAL
        and later.cost > first.cost
    )


def _number(amount: Decimal) -> float:
    return float(amount)


# -- What this instance remembers of results: which outcomes it has metered, and which assignments
# have taught it.


class Repetition(Enum):
    """How an outcome compares with those that this instance remembers."""

    FIRST = "first"
    REDELIVERED = "redelivered"  # the same stored message again
    DUPLICATE = "duplicate"  # another message with the same content
    LATER = "later"  # another outcome, which may correct the first
    CONFLICT = "conflict"  # another message of the same identity with other content


# bound once, as in `delivery.consume.in_flight`: nearly every result is one
FIRST = Repetition.FIRST


class _OutcomeDigest(Struct, frozen=True, gc=False):
    """Two hashes: of the outcome's content, and of the position of its stored message; and its
    status.
    """

    content: int
    place: int
    status: str


class RecentOutcomes:
    """At most `limit` identities with a digest of their outcome, for `keep_s` each; the least
    recently used goes first.
    """

    def __init__(self, limit: int = 100_000, keep_s: float = 600.0, clock: Clock = steady) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._told: PartedCache[str, _OutcomeDigest] = PartedCache(limit)

    def compare(self, event_id: str, event: UsageEvent, message: Message) -> Repetition:
        """Compare with the remembered outcome of this identity; the first content stays the one
        that counts.
        """
        # Timestamp and trace id are left out: a worker that repeats itself does so later.
        content = hash(
            (
                event.status,
                event.told_provider_id,
                event.event_type,
                event.latency_ms,
                event.cost,
                event.told_cost,
            )
        )
        place = hash((message.sequence, message.stored_ns))
        now = self._clock()
        digest = _OutcomeDigest(content, place, intern(event.status))
        first = self._told.get_or_put(
            event_id, digest, now + self._keep_s, now, owner=event.tenant_id
        )
        if first is None:
            return FIRST
        if first.place == place:
            return Repetition.REDELIVERED
        if first.content == content:
            return Repetition.DUPLICATE
        return (
            Repetition.LATER
            if first.status in REPLACED and event.status in FINAL
            else Repetition.CONFLICT
        )

    def __len__(self) -> int:
        return len(self._told)


DAY_S = 86_400.0


class ProviderFigures(Protocol):
    """The providers' moving averages and their breakers: fed once for each assignment."""

    def observe(
        self,
        tenant_id: str,
        provider_id: str,
        *,
        latency_ms: int,
        cost: float,
        status: str,
        error_code: str | None,
        retry_after_ms: int | None,
        assignment_id: str,
        listed_cost: float,
    ) -> None: ...


class FirstResults:
    """The assignments whose first result was used, for a day each, at most 100 000: hashes of about
    200 bytes each.
    """

    def __init__(
        self, figures: ProviderFigures, on_first: Callable[[Assignment, ExecResult], None]
    ) -> None:
        self._figures = figures
        self._on_first = on_first
        self._taught: PartedCache[int, bool] = PartedCache(100_000)

    def learn_from(self, assignment: Assignment, result: ExecResult, listed_cost: float) -> None:
        """Move the provider's figures if this is the assignment's first result. `listed_cost`: its
        `expected_cost`.
        """
        now, key = steady(), hash(assignment.assignment_id)
        if self._taught.get_or_put(key, True, now + DAY_S, now) is not None:
            return
        self._figures.observe(
            assignment.tenant_id,
            assignment.provider_id,
            latency_ms=result.latency_ms,
            cost=result.cost,
            status=result.status,
            error_code=result.error_code,
            retry_after_ms=result.retry_after_ms,
            assignment_id=assignment.assignment_id,
            listed_cost=listed_cost,
        )
        self._on_first(assignment, result)

    def __len__(self) -> int:
        return len(self._taught)
