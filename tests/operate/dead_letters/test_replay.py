"""Letters sent again, proven, removed; and what an interrupted replay left."""

import asyncio
from typing import Any

import pytest

from router.core.message import Effect
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream, StoredMessage
from router.operate.dead_letters import (
    ReplayRate,
    ReplayRunning,
    ReplayUnprovable,
    read_by_filter,
    rehearse,
)
from router.operate.dead_letters.journal import ReplayJournal
from router.operate.dead_letters.original import REPLAY_RUN
from tests.support.dead_letters import (
    DeadLetterStreams,
    a_dead_letter,
    a_stored_dead_letter,
    interrupt_replay,
)
from tests.support.made_anew import create_stream
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("no_probes")


@pytest.fixture(autouse=True)
def _server_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its word that no replay runs is waited for: silence would say that one does."""
    monkeypatch.setattr("router.operate.dead_letters.journal.JOURNAL_TIMEOUT_S", 60.0)


@pytest.fixture(params=["acknowledged", "no_ack"])
async def either(
    request: pytest.FixtureRequest, jetstream: JetStream, prefix: str
) -> DeadLetterStreams:
    """Both kinds of stream that a message may have come from."""
    return await DeadLetterStreams(jetstream, f"{prefix[:30]}_{request.param}").build(
        no_ack=request.param == "no_ack"
    )


@pytest.fixture
async def queue(jetstream: JetStream, prefix: str) -> DeadLetterStreams:
    """A work queue, as agents' commands are."""
    return await DeadLetterStreams(jetstream, prefix).build(retention="workqueue")


def _ids(sent: list[StoredMessage]) -> list[str]:
    return [message.headers["Nats-Msg-Id"] for message in sent]


async def _interrupted_again(house: DeadLetterStreams) -> None:
    """The next one was killed before it had finished what the first one left."""
    async with open_publisher(house.jetstream) as publisher:
        journal = ReplayJournal(house.jetstream, publisher, house.letters)
        assert await journal.begin() is not None
        await journal.close()


async def test_every_message_is_sent_once_and_every_dead_letter_goes(
    either: DeadLetterStreams,
) -> None:
    await either.store(1200)
    report = await either.replay()
    assert (report.sent, report.is_whole) == (1200, True)
    sent = await either.sent()
    assert [message.data for message in sent] == [b'{"n":%d}' % n for n in range(1200)]
    assert _ids(sent) == [f"replay:{n}:1" for n in range(1, 1201)]
    assert await either.left() == []


async def test_only_what_is_chosen_is_sent(house: DeadLetterStreams) -> None:
    await house.store(4)
    report = await house.replay(2, 3, 99)
    assert report.sent == 2
    assert [(kept.sequence, kept.cause) for kept in report.kept] == [
        (99, "there is no such dead letter")
    ]
    assert await house.left() == [1, 4]


async def test_a_dead_letter_that_cannot_be_sent_stays(house: DeadLetterStreams) -> None:
    await house.store(1)
    await house.store(1, make=lambda _: a_stored_dead_letter(b"\xff", f"{house.subject}.dlq"))
    report = await house.replay()
    assert (report.sent, await house.left()) == (1, [2])


async def test_a_subject_that_no_stream_takes_loses_nothing(house: DeadLetterStreams) -> None:
    await house.store(1)
    await house.jetstream.ask(f"STREAM.DELETE.{house.stream}")
    report = await house.replay()
    assert (report.sent, report.kept[0].cause) == (0, f"no stream takes {house.subject}")
    assert await house.left() == [1]


async def test_a_stream_that_refuses_keeps_its_dead_letters(house: DeadLetterStreams) -> None:
    config = {
        "name": house.stream,
        "subjects": [house.subject],
        "max_msgs": 3,
        "discard": "new",
        "duplicate_window": 100_000_000,
    }
    await house.jetstream.ask(f"STREAM.UPDATE.{house.stream}", config)
    await house.store(5)
    report = await house.replay()
    assert (report.sent, len(report.kept), report.is_in_doubt) == (3, 2, False)
    assert await house.left() == [4, 5]


async def _send_all(house: DeadLetterStreams, **options: Any) -> int:
    """Replay until no dead letter is left: the stream takes an id again once its duplicate window
    is over. Returns how many were sent.
    """
    sent = 0

    async def is_done() -> bool:
        nonlocal sent
        sent += (await house.replay(**options)).sent
        return not await house.left()

    await until(is_done, what="every dead letter to be sent")
    return sent


async def test_an_interrupted_replay_is_finished_before_anything_is_sent(
    either: DeadLetterStreams,
) -> None:
    await either.store(4)
    await interrupt_replay(either, 1, 3)
    await asyncio.sleep(0.15)  # longer than the duplicate window
    report = await either.replay()
    assert (report.finished, report.sent) == (2, 2)
    assert sorted(_ids(await either.sent())) == [f"replay:{n}:1" for n in range(1, 5)]
    assert await either.left() == []


async def test_a_replay_that_was_interrupted_while_it_finished_another_loses_neither(
    either: DeadLetterStreams,
) -> None:
    await either.store(4)
    await interrupt_replay(either, 1)
    await _interrupted_again(either)
    report = await either.replay()
    assert (report.finished, report.sent) == (1, 3)


async def test_what_bears_no_secret_of_a_replay_removes_no_dead_letter(
    either: DeadLetterStreams,
) -> None:
    await either.store(2)
    await interrupt_replay(either, 1, run="another run")
    assert (await either.replay(2)).finished == 0
    assert await either.left() == [1]


async def test_copied_headers_of_a_replay_prove_nothing(either: DeadLetterStreams) -> None:
    """A worker's answer with such a header made each later replay fail, or removed a dead letter
    that was never sent.
    """
    await either.store(2)
    await interrupt_replay(either, 1)
    (sent,) = await either.sent()
    copied = {REPLAY_RUN: sent.headers[REPLAY_RUN]}
    for headers in (
        copied,
        *({**copied, "Nats-Msg-Id": name} for name in ("result:r-1", "replay:x:1", "replay:2:1")),
    ):
        await either.jetstream.connection.publish(either.subject, b"answer", headers=headers)
    await either.jetstream.connection.flush()
    await asyncio.sleep(0.15)  # longer than the duplicate window
    report = await either.replay(2)
    assert (report.finished, report.sent) == (1, 1)
    assert await either.left() == []


async def test_dead_letters_of_another_stream_of_the_same_name_are_other_dead_letters(
    house: DeadLetterStreams,
) -> None:
    await house.store(1)
    await interrupt_replay(house, 1)
    await house.jetstream.ask(f"STREAM.DELETE.{house.letters}")
    await create_stream(house.jetstream, house.letters, {"subjects": [f"{house.subject}.dlq"]})
    await house.store(1)
    report = await house.replay()
    assert (report.finished, report.sent + await _send_all(house)) == (0, 1)


async def test_a_lost_journal_stops_a_replay_until_it_is_confirmed(
    house: DeadLetterStreams,
) -> None:
    await house.store(2)
    await interrupt_replay(house, 1)
    await house.jetstream.ask(f"STREAM.PURGE.{house.stream}")
    with pytest.raises(ReplayUnprovable):
        await house.replay()
    assert await house.left() == [1, 2]
    assert await _send_all(house, is_forgetful=True) == 2


async def test_what_stands_in_a_work_queue_is_found_and_what_was_consumed_of_it_is_not_guessed(
    queue: DeadLetterStreams,
) -> None:
    """It holds the first and the last; the one between may have been anything."""
    await queue.store(300)
    await interrupt_replay(queue, *range(1, 251))
    await queue.jetstream.ask(f"STREAM.MSG.DELETE.{queue.stream}", {"seq": 120})
    with pytest.raises(ReplayUnprovable, match="1 of the 250 messages above 0 is gone"):
        await queue.replay()
    assert await queue.left() == [120, *range(251, 301)]
    assert await _send_all(queue, is_forgetful=True) == 51


async def test_a_work_queue_that_was_emptied_stops_a_replay_until_it_is_confirmed(
    queue: DeadLetterStreams,
) -> None:
    await queue.store(2)
    await interrupt_replay(queue, 1)
    await queue.jetstream.ask(f"STREAM.PURGE.{queue.stream}")
    with pytest.raises(ReplayUnprovable):
        await queue.replay()
    assert await _send_all(queue, is_forgetful=True) == 2
    await queue.store(1)
    assert (await queue.replay()).sent == 1


async def test_a_message_that_was_removed_from_among_others_may_have_been_sent(
    house: DeadLetterStreams,
) -> None:
    """As the routers remove assignments that are done; an older one still stands there."""
    await house.jetstream.connection.request(house.subject, b"older", timeout=60)
    await house.store(2)
    await interrupt_replay(house, 1, 2)
    await house.jetstream.ask(f"STREAM.MSG.DELETE.{house.stream}", {"seq": 2})
    with pytest.raises(ReplayUnprovable, match="1 of the 2 messages above 1 is gone"):
        await house.replay()
    assert await house.left() == [1]


async def test_a_queue_that_remembers_the_id_of_a_consumed_message_keeps_its_dead_letter(
    queue: DeadLetterStreams,
) -> None:
    config = {
        "name": queue.stream,
        "subjects": [queue.subject],
        "retention": "workqueue",
        "duplicate_window": 60_000_000_000,
    }
    await queue.jetstream.ask(f"STREAM.UPDATE.{queue.stream}", config)
    await queue.store(1)
    await queue.jetstream.connection.request(
        queue.subject, b"first", headers={"Nats-Msg-Id": "replay:1:1"}, timeout=60
    )
    await queue.jetstream.ask(f"STREAM.MSG.DELETE.{queue.stream}", {"seq": 1})
    report = await queue.replay()
    assert "holds its message no more" in report.kept[0].cause
    assert (report.is_in_doubt, await queue.left()) == (False, [1])


async def test_one_replay_at_a_time(house: DeadLetterStreams) -> None:
    await house.store(1)
    async with open_publisher(house.jetstream) as publisher:
        journal = ReplayJournal(house.jetstream, publisher, house.letters)
        await journal.begin()
        with pytest.raises(ReplayRunning):
            await house.replay()
        await journal.close()
    assert (await house.replay()).sent == 1


async def test_of_two_that_begin_at_once_one_is_refused(house: DeadLetterStreams) -> None:
    async with open_publisher(house.jetstream) as publisher:
        journals = [ReplayJournal(house.jetstream, publisher, house.letters) for _ in range(2)]
        began = await asyncio.gather(
            *(journal.begin() for journal in journals), return_exceptions=True
        )
        assert sorted(type(one) for one in began if one is not None) == [ReplayRunning]


async def test_a_replay_that_failed_again_is_counted(house: DeadLetterStreams) -> None:
    await house.store(1, headers={"x-replay-count": "1"})
    await house.replay()
    assert (await house.sent())[0].headers["x-replay-count"] == "2"


async def test_an_id_that_the_stream_remembers_from_another_message_keeps_its_dead_letter(
    house: DeadLetterStreams,
) -> None:
    config = {"name": house.stream, "subjects": [house.subject], "duplicate_window": 60_000_000_000}
    await house.jetstream.ask(f"STREAM.UPDATE.{house.stream}", config)
    await house.store(1)
    await house.jetstream.connection.request(
        house.subject, b"another", headers={"Nats-Msg-Id": "replay:1:1"}, timeout=60
    )
    report = await house.replay()
    assert "remembers its id" in report.kept[0].cause
    assert await house.left() == [1]


async def test_a_payload_left_out_is_fetched_from_its_stream(house: DeadLetterStreams) -> None:
    data = b"x" * 5000
    await house.jetstream.connection.request(house.subject, data, timeout=60)
    await house.store(
        1, make=lambda message: a_dead_letter(message, max_bytes=2000), data=data, sequence=1
    )
    assert (await house.replay()).sent == 1
    assert [message.data for message in await house.sent()] == [data, data]


async def test_a_rehearsal_sends_and_removes_nothing(house: DeadLetterStreams) -> None:
    await house.store(2)
    found = [
        one
        async for one in rehearse(house.jetstream, read_by_filter(house.jetstream, house.letters))
    ]
    assert [one.id for one in found if isinstance(one, Effect)] == ["replay:1:1", "replay:2:1"]
    assert (await house.sent(), await house.left()) == ([], [1, 2])


async def test_a_rate_is_kept() -> None:
    loop = asyncio.get_running_loop()
    pace, begin = ReplayRate(200), loop.time()
    for _ in range(5):
        await pace.wait_for(4)
    assert loop.time() - begin >= 0.08
    assert (ReplayRate.handful(None), ReplayRate.handful(200), ReplayRate.handful(1)) == (
        500,
        20,
        1,
    )
