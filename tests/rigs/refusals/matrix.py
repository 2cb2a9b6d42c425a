"""One cell of the matrix: a store is spoilt, one message needs it, others do not; then the store is
made whole again.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from router.delivery.wire.api import JetStream
from tests.rigs.refusals.router_stage import QUIET
from tests.rigs.refusals.stages import WITHIN_S, Stage
from tests.support.delivery import connected
from tests.support.refusals import (
    FULL,
    MESSAGE,
    REFUSALS,
    STREAM,
    TAKEN,
    Refusal,
    keep_one_of_a_subject,
    make_too_small,
    mend,
    rename_subjects,
)
from tests.support.waiting import until

WAITS = "waits"
CANNOT_BE_STORED = "cannot_be_stored"
OVERLOADED = "overloaded"
OK = "ok"

Place = tuple[str, str]

# What becomes of the message while its store refuses: by the store, then by whose fault that is.
# What is not listed waits.
TOLD: Mapping[Place, Mapping[str, str]] = {
    # they are answered from the copies that pass by
    ("router", "requests"): {MESSAGE: OK, STREAM: OK, FULL: OK},
    ("router", "assignments"): {MESSAGE: CANNOT_BE_STORED, STREAM: CANNOT_BE_STORED},
    ("router", "known assignments"): {
        MESSAGE: CANNOT_BE_STORED,
        STREAM: CANNOT_BE_STORED,
        FULL: OVERLOADED,
    },
    ("router", "usage"): {MESSAGE: "too_large"},
    ("router", "dead letters"): {MESSAGE: "invalid_request"},
    ("router", "invocations"): {MESSAGE: CANNOT_BE_STORED, STREAM: CANNOT_BE_STORED},
    ("router", "policies"): {
        MESSAGE: "invalid_request",
        STREAM: CANNOT_BE_STORED,
        FULL: OVERLOADED,
    },
    ("bus", "dead letters"): {MESSAGE: "left out"},
    ("agent", "outgoing messages"): {MESSAGE: "too_large"},
    ("agent", "dead letters"): {MESSAGE: "left out"},
    ("inbox", "dead letters"): {MESSAGE: "left out"},
    ("worker", "results"): {MESSAGE: "dead letter"},
    ("worker", "dead letters"): {MESSAGE: "left out"},
    ("relay", "events"): {MESSAGE: "parked"},
}
# What becomes of a message that waited, once its store is whole again; and of one that its store
# takes.
MENDED: Mapping[Place, str] = {
    ("router", "requests"): OK,
    ("router", "results"): "metered",
    ("router", "acknowledgements"): "counted",
    ("router", "assignments"): OK,
    ("router", "known assignments"): OK,
    ("router", "usage"): "metered",
    ("router", "dead letters"): "invalid_request",
    ("router", "invocations"): OK,
    ("router", "policies"): OK,
    ("bus", "dead letters"): "dead letter",
    ("bus", "attempts"): "taken",
    ("agent", "outgoing messages"): "sent",
    ("agent", "dead letters"): "dead letter",
    ("inbox", "dead letters"): "dead letter",
    ("worker", "assignments"): "done",
    ("worker", "results"): "done",
    ("worker", "dead letters"): "dead letter",
    ("worker", "attempts"): "done",
    ("relay", "events"): "published",
}
# Nothing needs these: what its process says of a message that has to do with them, whatever they
# refuse.
NEEDED_BY_NONE: Mapping[Place, str] = {
    **{("router", store): OK for store in QUIET},
    ("partition", "leases"): OK,
    ("agent", "advisories"): "taken",
    ("inbox", "advisories"): "taken",
    ("worker", "acknowledgements"): "done",
}
# Every message of the process needs these, so all of them wait; what is too large alone lets the
# others go on.
NEEDED_BY_ALL = frozenset({("worker", "assignments"), ("worker", "results"), ("relay", "events")})
LARGE_ENOUGH_BYTES = 5_000  # for the others there; the message that is refused is larger

# What is renamed on its way in is delivered to no consumer, which the comparison of the topology
# says (`tests/delivery/test_topology`).
INPUT = frozenset(
    {
        ("router", "requests"),
        ("router", "results"),
        ("router", "acknowledgements"),
        ("worker", "assignments"),
    }
)
# Streams of many subjects: where one message of each is kept, the first one finds room.
ROOM_FOR_ONE = frozenset(
    {
        ("router", "known assignments"),
        ("router", "invocations"),
        ("router", "policies"),
        ("agent", "outgoing messages"),
        ("agent", "dead letters"),
        ("bus", "dead letters"),
        ("inbox", "dead letters"),
        ("relay", "events"),
    }
)

PLACES = (*MENDED, *NEEDED_BY_NONE)
# Who publishes to these sees the refusal, and what is refused before it begins holds nothing back.
UNTOLD = frozenset(
    {
        ("router", "requests"),
        ("router", "results"),
        ("router", "acknowledgements"),
        ("router", "invocations"),
        ("router", "policies"),
        ("worker", "assignments"),
        *NEEDED_BY_NONE,
    }
)


class Cell(Struct, frozen=True):
    """What was found. `told` while the store refused, `end` once it was whole again: of a message
    that waited, else the same.
    """

    process: str
    store: str
    refusal: Refusal
    others_failed: int
    told: str
    end: str
    is_well: bool

    @property
    def expected(self) -> tuple[str, str]:
        told = find_told(self.process, self.store, self.refusal)
        return told, MENDED[self.process, self.store] if told == WAITS else told

    @property
    def holds(self) -> bool:
        return (self.others_failed, self.told, self.end, self.is_well) == (0, *self.expected, True)


def list_cells() -> Iterator[tuple[str, str, Refusal]]:
    for place in PLACES:
        for refusal in REFUSALS:
            if place not in INPUT or refusal.spoil is not rename_subjects:
                yield *place, refusal


def find_told(process: str, store: str, refusal: Refusal) -> str:
    """What becomes of the message while its store refuses."""
    place = process, store
    if place in NEEDED_BY_NONE:
        return NEEDED_BY_NONE[place]
    if refusal.fault == TAKEN or (refusal.spoil is keep_one_of_a_subject and place in ROOM_FOR_ONE):
        return MENDED[place]
    return TOLD.get(place, {}).get(refusal.fault, WAITS)


async def play(process: str, stage: Stage, store: str, refusal: Refusal, url: str) -> Cell:
    """A message that is told something is waited for; of one that waits it is seen that it has no
    end, when the others have theirs.

    Where every message needs the store, the others are asked meanwhile, and have their end once it
    is whole.
    """
    told, place = find_told(process, store, refusal), (process, store)
    async with connected(url) as connection:
        jetstream = JetStream(connection)
        config = await _read_config(jetstream, stage.stores[store])
        await _spoil(jetstream, stage.stores[store], refusal, place)
        needing = asyncio.create_task(stage.need(store))
        if place not in UNTOLD and told != MENDED[place]:
            await until(
                lambda: _is_noticed(stage, needing),
                within_s=WITHIN_S,
                what=f"{store} {refusal.name} is noticed",
            )
        others_go_on = place not in NEEDED_BY_ALL or refusal.fault in {MESSAGE, TAKEN}
        if not others_go_on and told != WAITS:  # the only one that finds room
            await asyncio.wait({needing}, timeout=WITHIN_S)
        asking = asyncio.create_task(stage.ask_others())
        if others_go_on:
            await asyncio.wait({asking})
        if told != WAITS:
            await asyncio.wait({needing}, timeout=WITHIN_S)
        found = needing.result() if needing.done() else WAITS
        await mend(jetstream, config)
        await stage.make_whole()
        end = await asyncio.wait_for(needing, WITHIN_S)
        others_failed = await asking
        await until(stage.is_well, within_s=WITHIN_S, what="the process is ready")
    return Cell(process, store, refusal, others_failed, found, end, await stage.is_well())


async def _spoil(jetstream: JetStream, stream: str, refusal: Refusal, place: Place) -> None:
    if refusal.fault == MESSAGE and place in NEEDED_BY_ALL:
        await make_too_small(jetstream, stream, LARGE_ENOUGH_BYTES)
    else:
        await refusal.spoil(jetstream, stream)


async def _is_noticed(stage: Stage, needing: "asyncio.Task[str]") -> bool:
    return needing.done() or await stage.is_troubled()


async def _read_config(jetstream: JetStream, stream: str) -> dict[str, Any]:
    info = await jetstream.stream(stream)
    assert info is not None
    return dict(info["config"])
