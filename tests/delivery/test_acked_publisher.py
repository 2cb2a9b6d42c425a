import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from router.core.message import Effect
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from tests.support.delivery import FakeConnection, WorkStreams
from tests.support.waiting import until

LETTER = "dlq:1"


@pytest.fixture
async def publisher(place: WorkStreams) -> AsyncIterator[AckedPublisher]:
    publisher = AckedPublisher(place.jetstream)
    await publisher.open()
    yield publisher
    await publisher.close()


async def stored(publisher: AckedPublisher, *effects: Effect) -> PublishAcks:
    result = await publisher.publish_and_wait(effects)
    assert not isinstance(result, NotPublished), result
    return result


async def refused(publisher: AckedPublisher, *effects: Effect) -> NotPublished:
    result = await publisher.publish_and_wait(effects)
    assert isinstance(result, NotPublished), result
    return result


async def test_publish_acks_come_in_the_order_of_the_effects(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    one, two = (
        Effect(place.effects, b"1", "a", {"tenant_id": "t"}),
        Effect(place.letters, b"2", "b"),
    )
    publish_acks = await stored(publisher, one, two)
    assert [(r.id, r.stream, r.sequence, r.is_duplicate) for r in publish_acks] == [
        ("a", place.out, 1, False),
        ("b", place.out, 2, False),
    ]
    found = await place.jetstream.message(place.out, 1)
    assert found is not None
    assert (found.data, found.headers) == (b"1", {"tenant_id": "t", "Nats-Msg-Id": "a"})


async def test_an_id_that_stands_there_already_is_a_duplicate_of_the_first(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    await stored(publisher, Effect(place.effects, b"1", "a"))
    (publish_ack,) = await stored(publisher, Effect(place.effects, b"1", "a"))
    assert (
        publish_ack.is_duplicate,
        publish_ack.sequence,
        await place.last_sequence(place.out),
    ) == (True, 1, 1)


async def test_what_is_above_the_limit_of_the_connection_is_refused_and_never_sent(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    refusal = await refused(
        publisher, Effect(place.effects, b"x" * place.jetstream.connection.max_payload, "a")
    )
    assert (refusal.err_code, refusal.cause, publisher.pending) == (
        10054,
        "it is larger than the connection allows",
        0,
    )


async def test_a_subject_that_no_stream_takes_is_refused_at_once(publisher: AckedPublisher) -> None:
    refusal = await refused(publisher, Effect("not.bound", b"1", "a"))
    assert (refusal.subject, refusal.err_code, refusal.cause) == (
        "not.bound",
        10059,
        "no stream takes this subject",
    )


async def test_a_streams_refusal_carries_its_number(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    refusal = await refused(
        publisher, Effect(place.effects, b"1", "a", {"Nats-Expected-Stream": "ANOTHER"})
    )
    assert refusal.err_code == 10060


async def test_one_refusal_refuses_the_bundle_and_is_told_once(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    told: list[object] = []
    publisher.publish([Effect("not.bound", b"", "a"), Effect(place.effects, b"", "b")], told.append)
    await until(lambda: bool(told) and not publisher.pending)
    assert [type(result) for result in told] == [NotPublished]


async def test_many_bundles_share_the_window_and_each_is_told_once(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    told: list[PublishAcks | NotPublished] = []
    for number in range(100):
        publisher.publish([Effect(place.effects, b"", f"{number}")], told.append)
    await until(lambda: len(told) == 100)
    assert [result[0].id for result in told if not isinstance(result, NotPublished)] == [
        str(number) for number in range(100)
    ]
    assert publisher.pending == 0


async def test_a_dead_letters_duplicate_counts_while_its_first_copy_is_there(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    letter = Effect(place.letters, b"letter", LETTER, is_dead_letter=True)
    await stored(publisher, letter)
    (publish_ack,) = await stored(publisher, letter)
    assert (publish_ack.is_duplicate, await place.last_sequence(place.out)) == (True, 1)


async def test_a_dead_letter_whose_first_copy_is_gone_is_stored_again(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    letter = Effect(place.letters, b"letter", LETTER, is_dead_letter=True)
    await stored(publisher, letter)
    await place.jetstream.ask(f"STREAM.MSG.DELETE.{place.out}", {"seq": 1})
    (publish_ack,) = await stored(publisher, letter)
    assert (publish_ack.is_duplicate, publish_ack.sequence) == (False, 2)
    found = await place.jetstream.message(place.out, 2)
    assert found is not None
    assert found.data == b"letter"


async def test_an_effect_that_is_no_dead_letter_may_be_gone(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    effect = Effect(place.effects, b"", "a")
    await stored(publisher, effect)
    await place.jetstream.ask(f"STREAM.MSG.DELETE.{place.out}", {"seq": 1})
    (publish_ack,) = await stored(publisher, effect)
    assert publish_ack.is_duplicate


class Silent:
    """AckedPublisher over a connection that answers only what a test says."""

    def __init__(self) -> None:
        self.connection = FakeConnection()
        self.now = 0.0
        self.told: list[PublishAcks | NotPublished] = []
        self.publisher = AckedPublisher(self, timeout_s=5.0)  # type: ignore[arg-type]
        self.publisher._now = lambda: self.now

    def store(self, *ids: str) -> None:
        self.publisher.publish([Effect("effects", b"", one) for one in ids], self.told.append)

    def ack(self, number: int, **answer: object) -> None:
        self.connection.say(
            self.connection.posts[number].reply,
            orjson.dumps({"stream": "E", "seq": number + 1, **answer}),
        )

    @property
    def sent(self) -> list[str]:
        """The ids of what was published, in order."""
        return [
            post.head.partition(b"Nats-Msg-Id: ")[2].split(b"\r\n")[0].decode()
            for post in self.connection.posts
        ]

    @property
    def causes(self) -> list[str]:
        return [result.cause for result in self.told if isinstance(result, NotPublished)]


@pytest.fixture
async def silent() -> Silent:
    silent = Silent()
    await silent.publisher.open()
    return silent


async def test_who_awaits_a_publish_ack_when_the_window_closes_hears_that_there_is_none(
    silent: Silent,
) -> None:
    """It may belong to a live request, which outlives the subscription that it stored by."""
    waiting = asyncio.create_task(
        silent.publisher.publish_and_wait([Effect("effects", b"", "e-1")])
    )
    await asyncio.sleep(0)
    await silent.publisher.close()
    assert isinstance(await asyncio.wait_for(waiting, 60), NotPublished)


async def test_no_publish_ack_in_time_is_not_stored(silent: Silent) -> None:
    silent.store("a")
    silent.now = 4.9
    silent.publisher.expire()
    assert silent.told == []
    silent.now = 5.1
    silent.publisher.expire()
    assert (silent.causes, silent.publisher.pending) == (["no publish ack in time"], 0)


async def test_a_publish_ack_that_comes_too_late_is_not_heard(silent: Silent) -> None:
    silent.store("a")
    silent.now = 6.0
    silent.publisher.expire()
    silent.ack(0)
    assert len(silent.told) == 1


async def test_what_a_vanished_leader_took_with_it_is_sent_again_as_soon_as_the_next_one_answers(
    silent: Silent,
) -> None:
    """The oldest effect is tried again each second; once a copy of it is stored, so are the others.
    None waits for the end of its time.
    """
    silent.store("a")
    silent.store("b")
    for silent.now in (0.9, 1.0, 1.5, 2.0):
        silent.publisher.expire()
    assert silent.sent == ["a", "b", "a", "a"]
    silent.ack(3)
    assert silent.sent == ["a", "b", "a", "a", "b"]
    silent.ack(4)
    assert [result[0].id for result in silent.told if not isinstance(result, NotPublished)] == [
        "a",
        "b",
    ]
    assert silent.publisher.pending == 0


async def test_a_server_that_is_slow_gets_one_copy_more_a_second_however_much_waits(
    silent: Silent,
) -> None:
    """Its publish acks come in order: what it said of a copy is no news when the first one was
    acked before.
    """
    for number in range(100):
        silent.store(f"{number}")
    silent.now = 1.2
    silent.publisher.expire()
    silent.publisher.expire()
    silent.ack(0)
    silent.ack(100, duplicate=True)
    assert len(silent.connection.posts) == 101
    assert (len(silent.told), silent.publisher.pending) == (1, 99)


async def test_an_answer_to_a_copy_that_is_no_publish_ack_says_nothing(silent: Silent) -> None:
    silent.store("a")
    silent.now = 1.0
    silent.publisher.expire()
    silent.ack(
        1,
        error={"code": 409, "err_code": 10158, "description": "duplicate message id is in process"},
    )
    assert (silent.told, silent.publisher.pending) == ([], 1)


async def test_what_waits_for_a_publish_ack_is_sent_again_by_a_new_connection(
    silent: Silent,
) -> None:
    """The one before may have taken it with it. It has all its time again."""
    silent.store("a", "b")
    silent.now, silent.connection.reconnect_count = 4.9, 1
    silent.publisher.expire()
    assert silent.sent == ["a", "b", "a", "b"]
    silent.now = 5.5
    silent.publisher.expire()
    assert silent.told == []
    silent.ack(0)
    silent.ack(1)
    assert len(silent.told) == 1


async def test_while_there_is_no_connection_nothing_is_sent_again(silent: Silent) -> None:
    silent.store("a")
    silent.now, silent.connection.is_connected = 3.0, False
    silent.publisher.expire()
    assert silent.sent == ["a"]


async def test_what_is_tried_again_without_a_connection_fills_no_buffer(silent: Silent) -> None:
    """Each try left a copy in the write buffer: an outage of the broker became the end of a
    process.
    """
    silent.connection.is_connected = False
    for number in range(10):
        silent.now = 6.0 * number
        silent.store("a")
        silent.publisher.expire()
    assert (silent.sent, len(silent.told)) == ([], 9)
    silent.connection.is_connected, silent.connection.reconnect_count = True, 1
    silent.publisher.expire()
    assert silent.sent == ["a"]


async def test_all_keys_of_a_bucket_have_one_leader(silent: Silent) -> None:
    """One of them is tried again, and its publish ack sends the others again."""
    for key in ("a", "b"):
        silent.publisher.publish([Effect(f"$KV.ATTEMPTS.{key}", b"", key)], silent.told.append)
    silent.now = 1.0
    silent.publisher.expire()
    assert silent.sent == ["a", "b", "a"]
    silent.ack(2)
    assert silent.sent == ["a", "b", "a", "b"]


async def test_a_bundle_is_told_when_its_last_publish_ack_is_in_whatever_their_order(
    silent: Silent,
) -> None:
    silent.store("a", "b")
    silent.ack(1)
    assert silent.told == []
    silent.ack(0)
    (publish_acks,) = silent.told
    assert not isinstance(publish_acks, NotPublished)
    assert [(publish_ack.id, publish_ack.sequence) for publish_ack in publish_acks] == [
        ("a", 1),
        ("b", 2),
    ]


@pytest.mark.parametrize(
    "answer", [b"", b"not json", b"[]", b"7", b'{"stream": "E"}', b'{"error": "mine"}']
)
async def test_a_publish_ack_that_cannot_be_read_proves_nothing(
    silent: Silent, answer: bytes
) -> None:
    silent.store("a")
    silent.connection.say(silent.connection.posts[0].reply, answer)
    assert len(silent.causes) == 1


async def test_a_copy_of_a_publish_that_is_in_process_is_as_open_as_that_one(
    silent: Silent,
) -> None:
    """A leader without its followers says this of a second copy: the first is neither stored nor
    refused.
    """
    silent.store("a")
    silent.ack(
        0,
        error={"code": 409, "err_code": 10158, "description": "duplicate message id is in process"},
    )
    assert silent.told == [NotPublished("effects", 0, "duplicate message id is in process")]


async def test_a_check_that_fails_on_whatever_refuses_its_claim(
    place: WorkStreams, publisher: AckedPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = Effect(place.letters, b"1", LETTER, is_dead_letter=True)
    await stored(publisher, letter)

    async def broken(*_: object) -> None:
        raise ValueError("not even an error of ours")

    monkeypatch.setattr(place.jetstream, "message", broken)
    assert (await refused(publisher, letter)).cause == "ValueError"
    assert publisher.pending == 0


async def test_a_second_copy_of_a_dead_letter_counts_only_while_it_stands_too(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    letter = Effect(place.letters, b"1", LETTER, is_dead_letter=True)
    for _ in range(3):
        (publish_ack,) = await stored(publisher, letter)
        assert not publish_ack.is_duplicate
        await place.jetstream.ask(f"STREAM.MSG.DELETE.{place.out}", {"seq": publish_ack.sequence})
