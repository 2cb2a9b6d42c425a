"""Finish an interrupted replay: remove the dead letters whose messages stand in their streams.

Its messages stand above the stream's floor and bear a proof, so each that stands there is proven to
be sent. That one was not sent is proven only while every message above the floor still stands
there. A work queue removes each message that was consumed, the routers remove assignments that are
done, and any stream may have removed its oldest: then it is not known what was sent.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import AsyncIterator, Collection, Sequence

from router.core.errors import RouterError
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, Json, StoredMessage, nanos
from router.operate.dead_letters.discard import remove
from router.operate.dead_letters.journal import JournalEntry, prove
from router.operate.dead_letters.original import REPLAY_RUN
from router.operate.dead_letters.selection import SELECTION_PAGE

REPLAYED_ID = re.compile(r"replay:[0-9]{1,19}:[0-9]{1,19}", re.ASCII)
SETTLE_DELAY_S = 0.25  # after its process is gone: what it sent has been stored by then
MAX_GETS_AT_ONCE = 100  # of single messages


class ReplayUnprovable(RouterError):
    """Messages of an interrupted replay may have left their stream already, so it cannot be proven
    what was sent.
    """

    code = "replay_unprovable"


async def finish(
    jetstream: JetStream, letters: str, before: JournalEntry, *, is_forgetful: bool
) -> int:
    """Remove the dead letters whose messages an interrupted replay has sent; return how many.

    `letters`: the stream of dead letters. Raises BrokerUnavailable, and ReplayUnprovable unless
    `is_forgetful`.
    """
    if before.floors:
        await asyncio.sleep(SETTLE_DELAY_S)
    finished = 0
    for stream, floor in before.floors.items():
        info = await jetstream.stream(stream)
        if info is None:
            continue  # what it sent there is gone, and was lost with the stream
        last, standing = int(info["state"]["last_seq"]), 0
        async for found in _read_above(jetstream, info, floor):
            standing += sum(message.sequence <= last for message in found)
            sent = _list_sent(found, before.runs)
            finished += await remove(
                jetstream,
                letters,
                await _keep_older(jetstream, letters, sent, before.written)
                if before.written
                else sent,
            )
        if (gone := last - floor - standing) > 0 and not is_forgetful:
            raise ReplayUnprovable(_describe_loss(stream, floor, last, gone))
    return finished


def read_letter_sequence(message_id: str) -> int:
    """The sequence of the dead letter in the id of its replayed message, `replay:{sequence}:{n}`."""
    return int(message_id.split(":")[1])


async def _read_above(
    jetstream: JetStream, info: Json, floor: int
) -> AsyncIterator[Sequence[StoredMessage]]:
    """Yield pages of what stands above the floor. A work queue is read by sequence: it allows no
    consumer that only reads.
    """
    stream, last = info["config"]["name"], int(info["state"]["last_seq"])
    if info["config"]["retention"] == "workqueue":
        async for found in _get_range(jetstream, stream, floor + 1, last):
            yield found
        return
    async with open_reader(jetstream, stream, floor + 1, headers_only=True) as reader:
        async for found in reader.read_all(SELECTION_PAGE):
            yield found


async def _get_range(
    jetstream: JetStream, stream: str, start: int, last: int
) -> AsyncIterator[Sequence[StoredMessage]]:
    """Yield messages from `start` to `last`, at most MAX_GETS_AT_ONCE in a page; `get_next` steps
    over a gap.
    """
    while (
        start <= last
        and (first := await jetstream.get_next(stream, ">", start)) is not None
        and first.sequence <= last
    ):
        start = min(first.sequence + MAX_GETS_AT_ONCE, last + 1)
        others = await asyncio.gather(
            *(jetstream.message(stream, sequence) for sequence in range(first.sequence + 1, start))
        )
        yield [first, *(message for message in others if message is not None)]


def _list_sent(found: Sequence[StoredMessage], runs: Collection[str]) -> list[int]:
    """The dead letters of those messages that a replay sent. Others may bear such a header: who
    receives a message may copy its headers.
    """
    ids = [
        (message.headers.get("Nats-Msg-Id", ""), message.headers[REPLAY_RUN])
        for message in found
        if REPLAY_RUN in message.headers
    ]
    return [
        read_letter_sequence(one)
        for one, proof in ids
        if REPLAYED_ID.fullmatch(one) and _is_proven(one, proof, runs)
    ]


def _is_proven(message_id: str, proof: str, runs: Collection[str]) -> bool:
    return any(
        hmac.compare_digest(proof.encode("utf-8", "replace"), prove(run, message_id).encode())
        for run in runs
    )


async def _keep_older(
    jetstream: JetStream, letters: str, sequences: Sequence[int], written: int
) -> list[int]:
    """Those of the dead letters that are older than the entry (nanoseconds): in a copy, a later one
    is another of the same number.
    """
    older: list[int] = []
    for start in range(0, len(sequences), MAX_GETS_AT_ONCE):
        handful = sequences[start : start + MAX_GETS_AT_ONCE]
        found = await asyncio.gather(
            *(jetstream.message(letters, sequence) for sequence in handful)
        )
        older += [
            letter.sequence
            for letter in found
            if letter is not None and nanos(letter.time) < written
        ]
    return older


def _describe_loss(stream: str, floor: int, last: int, gone: int) -> str:
    are = "is" if gone == 1 else "are"
    return (
        f"what an interrupted replay sent to {stream} may be gone: {gone} of the "
        f"{last - floor} messages above {floor} {are} gone"
    )
