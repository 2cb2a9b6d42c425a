"""Books what an operator corrects: an adjustment of one bill, of a period, or of a budget
(docs/reference/budgets.md#adjust); and of a cost that is held.

    find (usage_search) ──> Correction, made here ──> stored, with a publish ack ──> the command's audit event

The identity of an adjustment follows from the command's `--id`. So a command that was killed is run
again with the same one, and books nothing twice: what stands is found in the stream, and within the
duplicate window the server finds it.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from msgspec import Struct

from router.budgets.model import Budget
from router.budgets.model.held_cost import (
    ALL_HELD,
    BILL,
    BUDGET,
    adjust_event,
    derive_held_identity,
    find_held_subject,
    make_adjustment,
    make_adjustment_effect,
    operator_identity,
)
from router.budgets.model.reservation import (
    RESERVATION_HEADER,
    BudgetReservation,
    read_reservation,
    reservation_text,
)
from router.budgets.model.spent_record import is_counted
from router.budgets.usage_search import (
    FoundAdjustment,
    FoundBill,
    UsageReference,
    find_adjustment,
    read_adjustment,
)
from router.contracts.money import format_nanos, round_to_nanos
from router.contracts.usage import UsageEvent, identity, read_usage_cost, read_usage_event
from router.core.errors import BrokerRefused, BrokerUnavailable, RouterError
from router.core.message import Effect
from router.delivery.consume.stream_reader import open_reader
from router.delivery.publish.acked_publisher import NotPublished
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import STREAM_NOT_FOUND, JetStream, StoredMessage

ALL_PROVIDERS = "*"  # of a budget without one: no provider can be called so
DAY_MS = 86_400_000
SHOWN = 5  # events named in a refusal
_PERIOD = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?", re.ASCII)
_TIMELESS = tuple(name for name in UsageEvent.__struct_fields__ if name != "timestamp")


class AdjustmentRefused(RouterError):
    """The correction cannot be booked; the text says why."""

    code = "invalid_adjustment"


class BilledPeriod(Struct, frozen=True):
    """A day or a month, UTC: its first and its last millisecond."""

    name: str
    starts_ms: int
    ends_ms: int


class Asked(Struct, frozen=True, kw_only=True):
    """What the operator asks for. `command_id`: the same again is the same adjustment."""

    tenant_id: str
    amount: Decimal
    reason: str
    command_id: str


class Correction(Struct, frozen=True):
    """An adjustment to be stored; `before`: nanos that stand on the bill of one event. Its time
    lies in `period`, whenever it is made.
    """

    event: UsageEvent
    reservation: str | None
    before: int | None = None
    period: BilledPeriod | None = None

    @property
    def effect(self) -> Effect:
        return make_adjustment_effect(self.event, self.reservation)

    @property
    def nanos(self) -> int:
        return round_to_nanos(Decimal(repr(self.event.cost)))


def read_period(text: str) -> BilledPeriod:
    """`2026-11` or `2026-11-27`. Raises ValueError."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise ValueError("should be a month, 2026-11, or a day, 2026-11-27")
    year, month, day = int(match[1]), int(match[2]), match[3]
    starts = datetime(year, month, int(day or 1), tzinfo=UTC)
    days = 1 if day else monthrange(year, month)[1]
    starts_ms = int(starts.timestamp()) * 1000
    return BilledPeriod(text, starts_ms, starts_ms + days * DAY_MS - 1)


def choose_bill(bills: Sequence[FoundBill], reference: UsageReference) -> FoundBill:
    """The one bill that is meant. Raises AdjustmentRefused."""
    if not bills:
        raise AdjustmentRefused(
            f"tenant {reference.tenant_id} has no usage event of {reference.name} in the stream"
        )
    billed = [bill for bill in bills if bill.event.is_correlated or reference.event_id is not None]
    if not billed:
        names = _name(bills)
        raise AdjustmentRefused(
            f"{reference.name} is on no bill: its events are marked, their assignment was "
            f"not known ({names})"
        )
    if len(billed) > 1:
        raise AdjustmentRefused(
            f"{reference.name} has {len(billed)} usage events: name one with --event "
            f"({_name(billed)})"
        )
    return billed[0]


def correct_bill(bill: FoundBill, asked: Asked) -> Correction:
    """Raises AdjustmentRefused where more is taken off than was billed."""
    event_id = operator_identity(BILL, asked.tenant_id, asked.command_id)
    billed = bill.count_billed(without=event_id)
    if asked.amount < 0 and billed + round_to_nanos(asked.amount) < 0:
        raise AdjustmentRefused(
            f"more than was billed: {format_nanos(billed)} stands there, and no bill of "
            "one event is below 0"
        )
    event = adjust_event(BILL, bill.event, asked.amount, event_id=event_id, reason=asked.reason)
    return Correction(event, bill.reservation, billed)


def correct_period(
    period: BilledPeriod, asked: Asked, provider_id: str, policy_id: str | None, now_ms: int
) -> Correction:
    """Raises AdjustmentRefused for a period that has not begun."""
    if period.starts_ms > now_ms:
        raise AdjustmentRefused(f"period {period.name} has not begun")
    event = make_adjustment(
        BILL,
        event_id=operator_identity(BILL, asked.tenant_id, asked.command_id),
        tenant_id=asked.tenant_id,
        provider_id=provider_id,
        amount=asked.amount,
        timestamp=min(period.ends_ms, now_ms),
        reason=asked.reason,
    )
    policy = (
        reservation_text(BudgetReservation("-", 0, policy_id, {}))
        if policy_id is not None
        else None
    )
    return Correction(event, policy, period=period)


def correct_budget(budget: Budget, asked: Asked, now_ms: int) -> Correction:
    """What is settled of this budget in its present window, and no bill."""
    event = make_adjustment(
        BUDGET,
        event_id=operator_identity(BUDGET, asked.tenant_id, asked.command_id),
        tenant_id=asked.tenant_id,
        provider_id=budget.provider_id or ALL_PROVIDERS,
        amount=asked.amount,
        timestamp=now_ms,
        budget=budget.budget_id,
        reason=asked.reason,
    )
    return Correction(event, None)


def list_counting(budgets: Sequence[Budget], correction: Correction) -> list[str]:
    """The budgets in whose present windows it counts."""
    effect = correction.effect
    cost, reservation = read_usage_cost(effect.data), read_reservation(correction.reservation)
    return [
        budget.budget_id
        for budget in budgets
        if cost is not None and is_counted(budget, cost, reservation)
    ]


async def book(
    jetstream: JetStream, stream: str, correction: Correction, *, is_repeated: bool
) -> FoundAdjustment | None:
    """Store it; the one of its identity that stood there already, if so. `is_repeated`: its id was
    used before, perhaps.

    Raises AdjustmentRefused if that one is another adjustment, BrokerUnavailable, BrokerRefused.
    """
    standing = await find_standing(jetstream, stream, correction) if is_repeated else None
    if standing is not None:
        return standing
    effect = correction.effect
    answer = await jetstream.publish(
        effect.subject, effect.data, {**effect.headers, "Nats-Msg-Id": effect.id}
    )
    if not answer.get("duplicate"):
        return None
    stored = await jetstream.message(stream, int(answer["seq"]))
    if stored is None or (adjustment := read_adjustment(stored)) is None:
        raise BrokerUnavailable(
            f"stream {stream} answers that {effect.id} is stored, and does not have it: "
            "run the command again"
        )
    return _require_same(adjustment, correction)


async def find_standing(
    jetstream: JetStream, stream: str, correction: Correction
) -> FoundAdjustment | None:
    """The adjustment of this identity. Raises AdjustmentRefused if it is another one."""
    standing = await find_adjustment(jetstream, stream, identity(correction.event))
    return _require_same(standing, correction) if standing is not None else None


def _require_same(standing: FoundAdjustment, correction: Correction) -> FoundAdjustment:
    wanted, period = correction.event, correction.period
    differ = [name for name in _TIMELESS if getattr(standing.event, name) != getattr(wanted, name)]
    if period is not None and not period.starts_ms <= standing.event.timestamp <= period.ends_ms:
        differ.append("timestamp")
    if differ:
        raise AdjustmentRefused(
            f"--id was used for another adjustment: {differ[0]} was "
            f"{getattr(standing.event, differ[0])}"
        )
    return standing


def _name(bills: Sequence[FoundBill]) -> str:
    said = [
        (
            f"{identity(bill.event)} {bill.event.provider_id} {bill.event.status} "
            f"{format_nanos(bill.nanos)}"
        )
        for bill in bills[:SHOWN]
    ]
    return ", ".join(said) + (", …" if len(bills) > SHOWN else "")


# -- Held costs: what stands in ROUTER_HELD, and how an operator decides it
# (docs/reference/contracts.md#held-costs). The adjustment is stored, with its publish ack; the
# caller stores the audit event; then the notice is removed. Killed between any two of them, the
# same command says the same again: the adjustment's identity follows from the event.

HELD_PAGE = 500


class HeldCost(Struct, frozen=True):
    """One notice. `stored_at`: the server's own text; `reservation`: the header that names the
    policy.
    """

    sequence: int
    stored_at: str
    event: UsageEvent
    reservation: str | None = None

    @property
    def event_id(self) -> str:
        return identity(self.event)


async def list_held(
    jetstream: JetStream, stream: str, tenant_id: str | None = None
) -> AsyncIterator[HeldCost]:
    """Those of all tenants, or of one, oldest first. A stream that is missing has none. Raises
    BrokerUnavailable.
    """
    subject = ALL_HELD if tenant_id is None else find_held_subject(tenant_id)
    try:
        async with open_reader(jetstream, stream, subject=subject) as reader:
            async for page in reader.read_all(HELD_PAGE):
                for stored in page:
                    if (held := _read_held(stored)) is not None:
                        yield held
    except BrokerRefused as exc:
        if exc.err_code != STREAM_NOT_FOUND:
            raise


async def find_held(jetstream: JetStream, stream: str, event_id: str) -> HeldCost | None:
    """The newest notice of this event; None: there is none."""
    matching = None
    async for held in list_held(jetstream, stream):
        if held.event_id == event_id:
            matching = held
    return matching


def check_held_amount(held: UsageEvent, amount: float, bills: Sequence[FoundBill]) -> None:
    """Raises AdjustmentRefused where a held cost, set to this amount, takes more off its bill than
    was billed.

    `bills`: what the usage stream has of the event that it is, or that it adjusts.
    """
    bill = next(
        (
            candidate
            for candidate in bills
            if identity(candidate.event) == (held.adjusts or identity(held))
        ),
        None,
    )
    if bill is None:
        if held.adjusts is None and amount >= 0:
            return  # a bill that has left the stream: an adjustment of it would be gone too
        raise AdjustmentRefused(
            f"the bill {held.adjusts} is no longer in the usage stream: an amount below 0 "
            "has no bound there"
        )
    booked = round_to_nanos(Decimal(repr(held.cost)))
    billed = bill.count_billed(without=derive_held_identity(identity(held))) - booked
    if billed + round_to_nanos(Decimal(repr(amount))) < 0:
        raise AdjustmentRefused(
            f"it takes more off than was billed: the amount is at least {format_nanos(-billed)}"
        )


async def book_held_cost(jetstream: JetStream, held: HeldCost, adjustment: UsageEvent) -> bool:
    """Store the adjustment; returns whether it is new: False where it stands already. Raises
    BrokerUnavailable: it is not stored.
    """
    async with open_publisher(jetstream) as publisher:
        result = await publisher.publish_and_wait(
            [make_adjustment_effect(adjustment, held.reservation)]
        )
    if isinstance(result, NotPublished):
        raise BrokerUnavailable(f"{result.subject} cannot be stored: {result.cause}")
    return not result[0].is_duplicate


async def remove_held(jetstream: JetStream, stream: str, held: HeldCost) -> None:
    """Remove the notice, after the adjustment and its audit event are stored."""
    try:
        await jetstream.ask(f"STREAM.MSG.DELETE.{stream}", {"seq": held.sequence, "no_erase": True})
    except BrokerRefused:
        # One error number says "not there", because another operator was faster, and "not allowed":
        # only the message can tell.
        if await jetstream.message(stream, held.sequence) is not None:
            raise


def _read_held(stored: StoredMessage) -> HeldCost | None:
    event = read_usage_event(stored.data)
    return (
        None
        if event is None
        else HeldCost(stored.sequence, stored.time, event, stored.headers.get(RESERVATION_HEADER))
    )
