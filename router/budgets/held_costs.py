"""Held costs: what stands in ROUTER_HELD, and how an operator decides it
(docs/reference/contracts.md#held-costs).

    list_held    the notices, oldest first
    find_held    the newest notice of one event
    book_held_cost  the adjustment is stored, with its publish ack; the caller stores the audit event;
                 then the notice is removed

Killed between any two of them, the same command says the same again: the adjustment's identity
follows from the event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec import Struct

from router.budgets.model.held_cost import ALL_HELD, find_held_subject, make_adjustment_effect
from router.budgets.model.reservation import RESERVATION_HEADER
from router.contracts.usage import UsageEvent, identity, read_usage_event
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.delivery.consume.stream_reader import open_reader
from router.delivery.publish.acked_publisher import NotPublished
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import STREAM_NOT_FOUND, JetStream, StoredMessage

PAGE = 500


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
    """Those of all tenants, or of one. A stream that is missing has none. Raises BrokerUnavailable."""
    subject = ALL_HELD if tenant_id is None else find_held_subject(tenant_id)
    try:
        async with open_reader(jetstream, stream, subject=subject) as reader:
            async for page in reader.read_all(PAGE):
                for stored in page:
                    if (held := _read(stored)) is not None:
                        yield held
    except BrokerRefused as exc:
        if exc.err_code != STREAM_NOT_FOUND:
            raise


async def find_held(jetstream: JetStream, stream: str, event_id: str) -> HeldCost | None:
    """None: there is no notice of this event."""
    found = None
    async for held in list_held(jetstream, stream):
        if held.event_id == event_id:
            found = held
    return found


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


def _read(stored: StoredMessage) -> HeldCost | None:
    event = read_usage_event(stored.data)
    return (
        None
        if event is None
        else HeldCost(stored.sequence, stored.time, event, stored.headers.get(RESERVATION_HEADER))
    )
