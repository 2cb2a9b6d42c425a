"""Which events are no longer where they stood, at a cost that nobody else who writes to the stream can raise.

    . 2 3 . 5 6 7 . 9      close together: the heads alone, by one reader
    900 … 17000            far apart: each asked for by itself, as is whatever a reader did not find

Between two events that are read together stand at most GAP strangers, so GAP + 1 heads are the most that an event costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from router.delivery.api import JetStream
from router.delivery.stream_reader import reading
from router.mailbox.outbox.broker_loss import StreamSnapshot, is_at

GAP: Final = 10  # strangers between two neighbours: to read over them is cheaper than a request for each side
FEW: Final = 20  # fewer are asked for one by one: a reader costs three requests
HEADS: Final = 1000  # read at once
AT_ONCE: Final = 10  # asked for at once: the server answers with the payload, too


async def find_missing(jetstream: JetStream, snapshot: StreamSnapshot, wanted: Mapping[int, UUID]) -> set[int]:
    """The sequences at which these events are not. Raises BrokerUnavailable, BrokerRefused."""
    found: set[int] = set()
    for first, last in stretches(wanted):
        found |= await _read(jetstream, snapshot.name, first, last, wanted)
    odd = [sequence for sequence in wanted if sequence not in found]
    missing = set()
    for start in range(0, len(odd), AT_ONCE):
        some = odd[start : start + AT_ONCE]
        there = await asyncio.gather(*(is_at(jetstream, snapshot, wanted[sequence], sequence) for sequence in some))
        missing |= {sequence for sequence, is_there in zip(some, there, strict=True) if not is_there}
    return missing


def stretches(sequences: Iterable[int]) -> Sequence[tuple[int, int]]:
    """The first and last of each stretch that is worth a reader."""
    runs: list[list[int]] = []
    for sequence in sorted(sequences):
        if not runs or sequence - runs[-1][-1] > GAP + 1:
            runs.append([])
        runs[-1].append(sequence)
    return [(run[0], run[-1]) for run in runs if len(run) >= FEW]


async def _read(jetstream: JetStream, stream: str, first: int, last: int, wanted: Mapping[int, UUID]) -> set[int]:
    """Those of the wanted ones from `first` to `last` that are in place; heads of others are not kept."""
    found: set[int] = set()
    async with reading(jetstream, stream, first, headers_only=True) as reader:
        while first <= last and (heads := await reader.read(min(HEADS, last - first + 1))):
            for head in heads:
                event = wanted.get(head.sequence)
                if event is not None and head.headers.get("Nats-Msg-Id") == str(event):
                    found.add(head.sequence)
            first = heads[-1].sequence + 1
    return found
