"""One cell of the matrix: a store is spoilt, one message needs it, others do not; then the store is made whole again."""

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from router.delivery.api import JetStream
from tests.refusals.refusals import FULL, MESSAGE, STREAM, Refusal, mend
from tests.refusals.stages import QUIET, WITHIN_S, Stage
from tests.support.delivery import connected
from tests.support.waiting import until

WAITS = "waits"
CANNOT_BE_STORED = "cannot_be_stored"
OK = "ok"

# What becomes of the message while its store refuses: by the store, then by whose fault that is. What is not listed waits.
TOLD: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("router", "assignments"): {MESSAGE: CANNOT_BE_STORED, STREAM: CANNOT_BE_STORED},
    ("router", "known assignments"): {MESSAGE: CANNOT_BE_STORED, STREAM: CANNOT_BE_STORED, FULL: "overloaded"},
    ("router", "usage"): {MESSAGE: "too_large"},
    ("router", "dead letters"): {MESSAGE: "invalid_request"},
    ("router", "invocations"): {MESSAGE: CANNOT_BE_STORED, STREAM: CANNOT_BE_STORED},
    ("bus", "dead letters"): {MESSAGE: "left out"},
    ("agent", "outgoing messages"): {MESSAGE: "too_large"},
    ("agent", "dead letters"): {MESSAGE: "left out"},
    ("inbox", "dead letters"): {MESSAGE: "left out"},
}
# What becomes of a message that waited, once its store is whole again.
MENDED: Mapping[tuple[str, str], str] = {
    ("router", "assignments"): "ok",
    ("router", "known assignments"): "ok",
    ("router", "usage"): "metered",
    ("router", "dead letters"): "invalid_request",
    ("router", "invocations"): "ok",
    ("bus", "dead letters"): "dead letter",
    ("bus", "attempts"): "taken",
    ("agent", "outgoing messages"): "sent",
    ("agent", "dead letters"): "dead letter",
    ("inbox", "dead letters"): "dead letter",
}

PLACES = (*MENDED, *(("router", store) for store in QUIET))
# What is refused before it begins, or needs nothing, holds nothing back.
UNTOLD = frozenset(("router", store) for store in ("invocations", *QUIET))


class Cell(Struct, frozen=True):
    """What was found. `told` while the store refused, `end` once it was whole again: of a message that waited, else the same."""

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
        return told, MENDED[self.process, self.store] if told == WAITS else told  # a quiet store never waits

    @property
    def holds(self) -> bool:
        return (self.others_failed, self.told, self.end, self.is_well) == (0, *self.expected, True)


def find_told(process: str, store: str, refusal: Refusal) -> str:
    """What becomes of the message while its store refuses."""
    return OK if process == "router" and store in QUIET else TOLD.get((process, store), {}).get(refusal.fault, WAITS)


async def play(process: str, stage: Stage, store: str, refusal: Refusal, url: str) -> Cell:
    """A message that is told something is waited for; of one that waits it is seen that it has no end, when the others have theirs."""
    told = find_told(process, store, refusal)
    async with connected(url) as connection:
        jetstream = JetStream(connection)
        config = await _read_config(jetstream, stage.stores[store])
        await refusal.spoil(jetstream, stage.stores[store])
        needing = asyncio.create_task(stage.need(store))
        if (process, store) not in UNTOLD:
            await until(lambda: _is_noticed(stage, needing), within_s=WITHIN_S, what=f"{store} {refusal.name} is noticed")
        others_failed = await stage.ask_others()
        if told != WAITS:
            await asyncio.wait({needing}, timeout=WITHIN_S)
        found = needing.result() if needing.done() else WAITS
        await mend(jetstream, config)
        end = await asyncio.wait_for(needing, WITHIN_S)
        await until(stage.is_well, within_s=WITHIN_S, what="the process is ready")
    return Cell(process, store, refusal, others_failed, found, end, await stage.is_well())


async def _is_noticed(stage: Stage, needing: "asyncio.Task[str]") -> bool:
    return needing.done() or await stage.is_troubled()


async def _read_config(jetstream: JetStream, stream: str) -> dict[str, Any]:
    info = await jetstream.stream(stream)
    assert info is not None
    return dict(info["config"])
