"""Letters chosen, counted, taken along and thrown away."""

from datetime import UTC, datetime, timedelta

import orjson

from router.delivery.consume.stream_reader import open_reader
from router.operate.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterHead,
    discard,
    export,
    group_by,
    read_by_filter,
    read_by_sequence,
    read_heads,
    reason_and_error,
)
from tests.support.dead_letters import DeadLetterStreams, a_dead_letter, a_stored_dead_letter


async def test_dead_letters_come_oldest_first_in_handfuls(house: DeadLetterStreams) -> None:
    await house.store(7)
    handfuls = [
        handful async for handful in read_by_filter(house.jetstream, house.letters, at_once=3)
    ]
    assert [[letter.sequence for letter in handful.dead_letters] for handful in handfuls] == [
        [1, 2, 3],
        [4, 5, 6],
        [7],
    ]
    assert [(handful.looked, handful.total) for handful in handfuls] == [(3, 7), (6, 7), (7, 7)]


async def test_dead_letters_that_arrive_meanwhile_are_not_chosen(house: DeadLetterStreams) -> None:
    await house.store(2)
    seen = []
    async for handful in read_by_filter(house.jetstream, house.letters, at_once=1):
        seen += [letter.sequence for letter in handful.dead_letters]
        await house.store(1)
    assert seen == [1, 2]


async def test_a_filter_leaves_the_others_out(house: DeadLetterStreams) -> None:
    await house.store(2)
    await house.store(1, make=lambda message: a_dead_letter(message, seen={"tenant_id": "acme"}))
    handfuls = [
        handful
        async for handful in read_by_filter(
            house.jetstream, house.letters, DeadLetterFilter(tenant="acme")
        )
    ]
    assert [letter.sequence for handful in handfuls for letter in handful.dead_letters] == [3]


async def test_numbers_are_taken_once_each_and_the_absent_are_named(
    house: DeadLetterStreams,
) -> None:
    await house.store(3)
    (handful,) = [
        handful async for handful in read_by_sequence(house.jetstream, house.letters, [3, 1, 9, 3])
    ]
    assert ([letter.sequence for letter in handful.dead_letters], handful.absent) == ([1, 3], [9])


async def test_no_stream_has_no_dead_letters(house: DeadLetterStreams) -> None:
    assert [handful async for handful in read_by_filter(house.jetstream, "NOWHERE")] == []


async def test_dead_letters_of_one_cause_are_one_group(house: DeadLetterStreams) -> None:
    await house.store(2)
    await house.store(3, make=lambda message: a_dead_letter(message, reason="maxdeliver_exhausted"))
    groups = await group_by(read_heads(house.jetstream, house.letters), reason_and_error)
    assert [
        (group.kind[0], group.count, group.first_sequence, group.last_sequence) for group in groups
    ] == [("maxdeliver_exhausted", 3, 3, 5), ("validation_failed", 2, 1, 2)]


ODD_DEAD_LETTERS = [
    b"",
    b"\xff\xfe",
    b"[1]",
    b"{}",
    b'{"reason":""}',
    b'{"reason":7,"original_subject":"s"}',
    b'{"reason":"validation_failed"}',
    b'{"reason":"validation_failed","original_subject":"s","validation_error":{"code":9,"field":"f"}}',
    b'{"reason":"validation_failed","original_subject":"s","validation_error":{},"last_error":{"code":"LATER"}}',
    b'{"reason":"processing_error","original_subject":"s","last_error":{"code":"E"},"tenant_id":"acme","x":"\xff"}',
    b'{"reason":"r\xc3\xa9","original_subject":"s","last_error":"text","tenant_id":{}}',
    b'{"reason":"a","reason":"b","original_subject":"s","message":'
    + b"[" * 900
    + b"]" * 900
    + b"}",
]


async def test_a_head_says_what_the_whole_dead_letter_says(house: DeadLetterStreams) -> None:
    bodies = iter(ODD_DEAD_LETTERS)
    await house.store(2)
    await house.store(
        len(ODD_DEAD_LETTERS),
        make=lambda _: a_stored_dead_letter(next(bodies), f"{house.subject}.dlq", tenant_id="acme"),
    )
    whole = [
        letter
        async for batch in read_by_filter(house.jetstream, house.letters)
        for letter in batch.dead_letters
    ]
    heads = [head async for batch in read_heads(house.jetstream, house.letters) for head in batch]
    names = [name for name in dir(DeadLetter) if name[0] != "_" and hasattr(DeadLetterHead, name)]
    assert {"sequence", "stored_at", "reason", "code", "field", "tenant_id", "size"} < {*names}
    assert [[getattr(one, name) for name in names] for one in heads] == [
        [getattr(one, name) for name in names] for one in whole
    ]


async def test_heads_are_chosen_by_filter_and_from_the_newest(house: DeadLetterStreams) -> None:
    await house.store(3)
    await house.store(2, make=lambda message: a_dead_letter(message, seen={"tenant_id": "acme"}))
    chosen = [
        head.sequence
        async for batch in read_heads(
            house.jetstream, house.letters, DeadLetterFilter(tenant="acme")
        )
        for head in batch
    ]
    newest = [
        head.sequence
        async for batch in read_heads(house.jetstream, house.letters, newest=2)
        for head in batch
    ]
    later = DeadLetterFilter(since=datetime.now(UTC) + timedelta(hours=1))
    assert (chosen, newest) == ([4, 5], [4, 5])
    assert [
        batch async for batch in read_heads(house.jetstream, house.letters, later) if batch
    ] == []
    assert [batch async for batch in read_heads(house.jetstream, "NOWHERE")] == []


async def test_what_is_discarded_is_gone_and_what_was_gone_is_no_error(
    house: DeadLetterStreams,
) -> None:
    await house.store(4)
    progress: list[tuple[int, int]] = []
    chosen = read_by_sequence(house.jetstream, house.letters, [1, 3])
    assert (
        await discard(
            house.jetstream, house.letters, chosen, on_progress=lambda *told: progress.append(told)
        )
        == 2
    )
    assert (await house.left(), progress) == ([2, 4], [(2, 2)])
    assert (
        await discard(
            house.jetstream,
            house.letters,
            read_by_sequence(house.jetstream, house.letters, [2]),
            erase=True,
        )
        == 1
    )


async def test_an_exported_dead_letter_is_whole_whatever_its_bytes(
    house: DeadLetterStreams,
) -> None:
    await house.store(1, data=b"\x00\xff")
    await house.store(1, make=lambda _: a_stored_dead_letter(b"\xff\xfe", f"{house.subject}.dlq"))
    lines: list[bytes] = []
    assert await export(read_by_filter(house.jetstream, house.letters), lines.append) == 2
    first, second = map(orjson.loads, lines)
    assert (first["payload"], first["payload_encoding"], first["letter"]["reason"]) == (
        "AP8=",
        "base64",
        "validation_failed",
    )
    assert (second["reason"], second["letter"]) == ("unreadable", None)


async def test_a_sender_s_headers_do_not_move_a_message(house: DeadLetterStreams) -> None:
    await house.store(
        1,
        make=lambda message: a_stored_dead_letter(
            b"x", f"{house.subject}.dlq", **{"Nats-Sequence": "99", "Status": "404"}
        ),
    )
    async with open_reader(house.jetstream, house.letters) as reader:
        (found,) = await reader.read(10)
    assert (found.sequence, found.headers["Status"]) == (1, "404")
    assert found.time.endswith("Z")
