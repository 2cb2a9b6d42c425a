"""Find events that the broker acknowledged and lost, and reset their rows, so that the relay
publishes them again.

A server may acknowledge a message before its disk holds it; after a power failure the newest part
of a stream is missing, and the server does not report that. The ack rows say where each event was
stored, so after every reconnect this module compares:

    newest ack row still in place, by id     all older ones are: a stream loses its end
    another event there, or none             lost; check the ack row before it
    below the stream's first sequence        expired, not lost
    the stream was created anew              all events of the old one are lost
    holes inside (a damaged block)           the server reports their sequences; those that it does
                                             not see, `integrity_scan` finds

Publishing an event twice is harmless, since its id is the same. Not publishing it loses it.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from msgspec import Struct

from router.delivery.wire.api import JetStream
from router.mailbox.postgres import Database, Session

ACK_ROWS_PER_QUERY = 20
MAX_CONCURRENT_LOOKUPS = 100  # requests at once

SELECT_NEWEST: Final = """
    SELECT id, stream_created, outbox_ids, sequences FROM outbox_publish_acks
    WHERE stream = %s AND (last_sequence, id) < (%s, %s) ORDER BY last_sequence DESC, id DESC LIMIT %s"""
SELECT_HOLES: Final = """
    SELECT id, stream_created, outbox_ids, sequences FROM outbox_publish_acks
    WHERE stream = %s AND stream_created = %s AND sequences && %s::bigint[]"""
SELECT_OTHER_STREAM: Final = """
    SELECT id, stream_created, outbox_ids, sequences FROM outbox_publish_acks
    WHERE stream = %s AND stream_created <> %s ORDER BY id LIMIT %s"""
DELETE_ACK_ROWS: Final = "DELETE FROM outbox_publish_acks WHERE id = ANY(%s)"
INSERT_ACK_ROW: Final = """
    INSERT INTO outbox_publish_acks (stream, stream_created, last_sequence, outbox_ids, sequences)
    VALUES (%s, %s, %s, %s::uuid[], %s::bigint[])"""
TAKE_BACK: Final = (
    "UPDATE outbox_events SET published_at = NULL WHERE id = ANY(%s) AND published_at IS NOT NULL"
)


class PublishAckRow(Struct, frozen=True):
    """One row of outbox_publish_acks."""

    id: int
    stream_created: str
    ids: list[UUID]
    sequences: list[int]


class StreamSnapshot(Struct, frozen=True):
    """The stream as it is now."""

    name: str
    created: str
    first: int
    last: int
    holes: list[int]
    subjects: tuple[str, ...] = (">",)  # that the stream accepts


async def reset_lost_rows(
    database: Database, jetstream: JetStream, stream: str
) -> tuple[StreamSnapshot, int]:
    """Reset the rows of lost events; return the stream's snapshot and the number of rows
    (docs/explanation/durability.md#lost-by-broker).

    Raises BrokerUnavailable (also when there is no such stream), BrokerRefused,
    DatabaseUnavailable.
    """
    snapshot = await read_stream_snapshot(jetstream, stream)
    taken = await _reset_rows_of_older_stream(database, snapshot) + await _reset_rows_in_holes(
        database, snapshot
    )
    return snapshot, taken + await _reset_lost_end(database, jetstream, snapshot)


async def _reset_lost_end(
    database: Database, jetstream: JetStream, snapshot: StreamSnapshot
) -> int:
    taken, before = 0, (1 << 62, 0)
    while True:
        async with database.transaction() as session:
            page = await session.fetch(
                SELECT_NEWEST, (snapshot.name, *before, ACK_ROWS_PER_QUERY), make=PublishAckRow
            )
            for ack_row in page:
                if await _is_in_place(jetstream, snapshot, ack_row):
                    return taken
                taken += await reset_rows(
                    session, snapshot, ack_row, await _find_missing(jetstream, snapshot, ack_row)
                )
        if len(page) < ACK_ROWS_PER_QUERY:
            return taken
        before = (max(page[-1].sequences), page[-1].id)


async def _reset_rows_of_older_stream(database: Database, snapshot: StreamSnapshot) -> int:
    taken = 0
    while True:
        async with database.transaction() as session:
            page = await session.fetch(
                SELECT_OTHER_STREAM,
                (snapshot.name, snapshot.created, ACK_ROWS_PER_QUERY),
                make=PublishAckRow,
            )
            for ack_row in page:
                taken += await reset_rows(session, snapshot, ack_row, set(ack_row.sequences))
        if not page:
            return taken


async def _reset_rows_in_holes(database: Database, snapshot: StreamSnapshot) -> int:
    if not snapshot.holes:
        return 0
    async with database.transaction() as session:
        ack_rows = await session.fetch(
            SELECT_HOLES, (snapshot.name, snapshot.created, snapshot.holes), make=PublishAckRow
        )
        return sum(
            [
                await reset_rows(session, snapshot, ack_row, set(snapshot.holes))
                for ack_row in ack_rows
            ]
        )


async def reset_rows(
    session: Session, snapshot: StreamSnapshot, ack_row: PublishAckRow, lost: set[int]
) -> int:
    """Mark the rows of one ack row that were stored at these sequences as unpublished; return how
    many.
    """
    places = list(zip(ack_row.ids, ack_row.sequences, strict=True))
    gone = [event for event, sequence in places if sequence in lost]
    kept = [(event, sequence) for event, sequence in places if sequence not in lost]
    if not gone:
        return 0
    if not await session.execute(DELETE_ACK_ROWS, ([ack_row.id],)):
        return 0  # another relay, or the integrity scan beside this one, was first
    if kept:
        sequences = [sequence for _, sequence in kept]
        await session.execute(
            INSERT_ACK_ROW,
            (
                snapshot.name,
                ack_row.stream_created,
                max(sequences),
                [event for event, _ in kept],
                sequences,
            ),
        )
    return await session.execute(TAKE_BACK, (gone,))


async def read_stream_snapshot(
    jetstream: JetStream, stream: str, *, with_holes: bool = True
) -> StreamSnapshot:
    """`with_holes`: the answer lists deleted sequences. Raises BrokerUnavailable, BrokerRefused
    (also when there is no such stream).
    """
    info = await jetstream.ask(f"STREAM.INFO.{stream}", {"deleted_details": with_holes})
    state = info["state"]
    # a stream that mirrors or sources others names none
    subjects = tuple(map(str, info["config"].get("subjects") or (">",)))
    holes = list(state.get("deleted") or ())
    return StreamSnapshot(
        stream,
        str(info["created"]),
        int(state["first_seq"]),
        int(state["last_seq"]),
        holes,
        subjects,
    )


async def _is_in_place(
    jetstream: JetStream, snapshot: StreamSnapshot, ack_row: PublishAckRow
) -> bool:
    """Whether the newest event of a ack row is where it was stored, or has expired."""
    sequence = max(ack_row.sequences)
    if sequence < snapshot.first:
        return True
    return await is_at(
        jetstream, snapshot, ack_row.ids[ack_row.sequences.index(sequence)], sequence
    )


async def _find_missing(
    jetstream: JetStream, snapshot: StreamSnapshot, ack_row: PublishAckRow
) -> set[int]:
    places = [
        (event, sequence)
        for event, sequence in zip(ack_row.ids, ack_row.sequences, strict=True)
        if sequence >= snapshot.first
    ]
    missing = set()
    for start in range(0, len(places), MAX_CONCURRENT_LOOKUPS):
        some = places[start : start + MAX_CONCURRENT_LOOKUPS]
        are_there = await asyncio.gather(
            *(is_at(jetstream, snapshot, event, sequence) for event, sequence in some)
        )
        missing |= {
            sequence
            for (_, sequence), is_there in zip(some, are_there, strict=True)
            if not is_there
        }
    if not missing:
        return missing
    # an event that expired meanwhile is not lost
    snapshot = await read_stream_snapshot(jetstream, snapshot.name, with_holes=False)
    return {sequence for sequence in missing if sequence >= snapshot.first}


async def is_at(jetstream: JetStream, snapshot: StreamSnapshot, event: UUID, sequence: int) -> bool:
    """Whether the stream holds the event at this sequence. Raises BrokerUnavailable, BrokerRefused."""
    if sequence > snapshot.last:
        return False
    message = await jetstream.get(snapshot.name, {"seq": sequence})
    return message is not None and message.headers.get("Nats-Msg-Id") == str(event)
