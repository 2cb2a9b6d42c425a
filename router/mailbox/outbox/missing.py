"""Find outbox events missing from the stream. Reads headers only, at most GAP + 1 messages per event, so other writers cannot slow it down.

. 2 3 . 5 6 7 . 9      close together: one reader reads their headers
900 … 17000            far apart: one request each, and one for each event that a reader did not find
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream
from router.mailbox.outbox.broker_loss import StreamSnapshot, is_at

GAP: Final = 10  # other messages between two neighbours: reading over them is cheaper than a request for each side
MAX_SINGLE_READS: Final = 20  # fewer events get one request each: a reader costs three requests
HEADERS_PER_READ: Final = 1000  # headers in one read
MAX_CONCURRENT_READS: Final = 10  # requests at once: the server's answer holds the payload, too


async def find_missing(jetstream: JetStream, snapshot: StreamSnapshot, wanted: Mapping[int, UUID]) -> set[int]:
    """Return the sequences that no longer hold their event. Raises BrokerUnavailable, BrokerRefused."""
    found: set[int] = set()
    for first, last in stretches(wanted):
        found |= await _read(jetstream, snapshot.name, first, last, wanted)
    odd = [sequence for sequence in wanted if sequence not in found]
    missing = set()
    for start in range(0, len(odd), MAX_CONCURRENT_READS):
        some = odd[start : start + MAX_CONCURRENT_READS]
        there = await asyncio.gather(*(is_at(jetstream, snapshot, wanted[sequence], sequence) for sequence in some))
        missing |= {sequence for sequence, is_there in zip(some, there, strict=True) if not is_there}
    return missing


def stretches(sequences: Iterable[int]) -> Sequence[tuple[int, int]]:
    """Group sequences that are close enough for one reader; return the first and last of each group."""
    runs: list[list[int]] = []
    for sequence in sorted(sequences):
        if not runs or sequence - runs[-1][-1] > GAP + 1:
            runs.append([])
        runs[-1].append(sequence)
    return [(run[0], run[-1]) for run in runs if len(run) >= MAX_SINGLE_READS]


async def _read(jetstream: JetStream, stream: str, first: int, last: int, wanted: Mapping[int, UUID]) -> set[int]:
    """Return the sequences from `first` to `last` that still hold their event; headers of other messages are dropped."""
    found: set[int] = set()
    async with open_reader(jetstream, stream, first, headers_only=True) as reader:
        while first <= last and (heads := await reader.read(min(HEADERS_PER_READ, last - first + 1))):
            for head in heads:
                event = wanted.get(head.sequence)
                if event is not None and head.headers.get("Nats-Msg-Id") == str(event):
                    found.add(head.sequence)
            first = heads[-1].sequence + 1
    return found
