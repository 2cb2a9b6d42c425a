"""Steps 2 to 4: what becomes of a message by what the store knows of it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import orjson
import pytest

from router.agents.adapter import Context, Outgoing
from router.agents.envelope import Envelope
from router.core.errors import Poison
from router.core.outcome import (
    MAXDELIVER_EXHAUSTED,
    PROCESSING_ERROR,
    VALIDATION_FAILED,
    Dead,
    Done,
    PublishAck,
    Retry,
)
from router.core.user_functions import HandlerMisused
from tests.support.agents import BatchBench, a_batch_bench, a_message
from tests.support.counting_agent import COUNTED


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[BatchBench]:
    with a_batch_bench(tmp_path / "w.db") as bench:
        yield bench


def ids_of(outcome: object) -> list[str]:
    assert isinstance(outcome, Done)
    return [effect.id for effect in outcome.effects]


def sent_notes(outcome: Done) -> list[str]:
    return [orjson.loads(effect.data)["payload"]["note"] for effect in outcome.effects]


def stored_notes(bench: BatchBench) -> list[str]:
    return [
        orjson.loads(row[0])["payload"]["note"] for row in bench.rows("SELECT content FROM events")
    ]


def test_a_new_message_is_applied_and_its_messages_are_to_be_stored_before_the_ack(
    bench: BatchBench,
) -> None:
    """MF-4."""
    (outcome,) = bench.batch.handle([a_message(1)])
    assert len(ids_of(outcome)) == 1
    assert bench.statuses() == {"k-1": "applied"}
    assert bench.times("k-1") == 1


def test_a_redelivery_of_what_was_applied_sends_what_has_no_publish_ack_and_applies_nothing(
    bench: BatchBench,
) -> None:
    """MF-4, MF-6."""
    (first,) = bench.batch.handle([a_message(1)])
    (again,) = bench.reopen().batch.handle([a_message(1, deliveries=2)])
    assert ids_of(again) == ids_of(first)
    assert bench.times("k-1") == 1


def test_a_redelivery_of_what_was_sent_is_only_acknowledged(bench: BatchBench) -> None:
    """MF-6."""
    (first,) = bench.batch.handle([a_message(1)])
    bench.publish_acks.note([PublishAck(ids_of(first)[0], "MESHFORGE_EVENTS", 9, False)])
    bench.batch.handle([a_message(2)])  # takes the mark along
    assert bench.rows("SELECT stored_stream, stored_seq FROM outgoing WHERE place = 1") == [
        ("MESHFORGE_EVENTS", 9)
    ]
    (again,) = bench.batch.handle([a_message(1, deliveries=2)])
    assert ids_of(again) == []


def test_the_same_key_twice_in_one_batch_is_applied_once(bench: BatchBench) -> None:
    """MF-7."""
    first, second, third = bench.batch.handle(
        [a_message(1, "k"), a_message(2, "k"), a_message(3, "k")]
    )
    assert ids_of(first) == ids_of(second) == ids_of(third)
    assert bench.times("k") == 1


def test_one_that_fails_harms_no_other_of_its_batch(bench: BatchBench) -> None:
    good, bad, other = bench.batch.handle([a_message(1), a_message(2, fail=1), a_message(3)])
    assert isinstance(bad, Retry)
    assert ids_of(good)
    assert ids_of(other)
    assert bench.statuses() == {"k-1": "applied", "k-2": "received", "k-3": "applied"}
    assert bench.times("k-2") == 0, "what it did before it failed is undone"


def raising(exc: BaseException) -> NoReturn:
    raise exc


@pytest.mark.parametrize("exc", [SystemExit("no stock"), KeyboardInterrupt(), GeneratorExit()])
def test_one_that_exits_harms_no_other_of_its_batch(bench: BatchBench, exc: BaseException) -> None:
    """An exit passed through the store's thread and ended the agent, at each delivery anew."""
    apply = bench.adapter.apply
    bench.adapter.apply = lambda ctx, envelope: (
        raising(exc) if ctx.idempotency_key == "k-2" else apply(ctx, envelope)
    )
    good, bad, other = bench.batch.handle([a_message(1), a_message(2), a_message(3)])
    assert [type(outcome) for outcome in (good, bad, other)] == [Done, Retry, Done]
    assert bench.statuses() == {"k-1": "applied", "k-2": "received", "k-3": "applied"}


@pytest.mark.parametrize(
    "answer",
    [
        True,
        False,
        "counted",
        {"key": 1},
        Outgoing(COUNTED, "counted"),
        [None],
        [Outgoing(COUNTED, "c"), 1],
    ],
)
def test_an_apply_that_answers_nonsense_ends_the_agent_and_spends_no_attempt(
    bench: BatchBench, answer: object
) -> None:
    """Whatever else was in its batch is undone; once `apply` is mended all of it is applied."""
    bench.adapter.apply = lambda ctx, envelope: answer
    for _ in range(bench.limit + 1):
        with pytest.raises(HandlerMisused, match=r"apply: it returned .*Outgoing"):
            bench.reopen().batch.handle([a_message(1), a_message(2)])
    del bench.adapter.apply
    outcomes = bench.reopen().batch.handle([a_message(1), a_message(2)])
    assert [isinstance(outcome, Done) for outcome in outcomes] == [True, True]
    assert (bench.statuses(), bench.times("k-1")) == ({"k-1": "applied", "k-2": "applied"}, 1)


def test_one_that_failed_is_applied_once_it_works(bench: BatchBench) -> None:
    bench.batch.handle([a_message(1, fail=1)])
    (again,) = bench.batch.handle([a_message(1, fail=1, deliveries=2)])
    assert ids_of(again)
    assert bench.times("k-1") == 1


def test_the_same_key_with_other_content_is_applied_as_it_was_stored(bench: BatchBench) -> None:
    """MF-11: the second message comes while the first waits for its retry; the store keeps the
    first one's content.
    """
    bench.batch.handle([a_message(1, "k", fail=1, note="first")])
    (second,) = bench.batch.handle([a_message(2, "k", note="second")])
    assert isinstance(second, Done)
    assert sent_notes(second) == stored_notes(bench) == ["first"]
    (first,) = bench.batch.handle([a_message(1, "k", fail=1, note="first", deliveries=2)])
    assert sent_notes(first) == ["first"]
    assert bench.times("k") == 1


def test_a_body_without_a_time_keeps_the_time_that_was_stored(bench: BatchBench) -> None:
    """MF-10: two messages of one key have two stream times, and the store holds one of them."""
    late = 5_000_000  # nanoseconds: another millisecond
    bench.batch.handle([a_message(1, "k", fail=1)])
    (again,) = bench.batch.handle([a_message(1 + late, "k", fail=1)])
    assert isinstance(again, Done)
    content = bench.rows("SELECT content FROM events")[0][0]
    assert orjson.loads(again.effects[0].data)["ts"] == orjson.loads(content)["ts"]


def test_attempts_are_written_down_before_they_are_made_and_the_last_one_is_a_dead_letter(
    bench: BatchBench,
) -> None:
    """MF-8."""
    outcomes = [bench.batch.handle([a_message(1, fail=99)])[0] for _ in range(5)]
    assert [type(outcome) for outcome in outcomes] == [Retry, Retry, Retry, Retry, Dead]
    assert isinstance(outcomes[4], Dead)
    assert outcomes[4].reason == MAXDELIVER_EXHAUSTED
    assert bench.rows("SELECT attempts FROM events") == [(5,)]


def test_the_servers_last_delivery_is_the_last_attempt(bench: BatchBench) -> None:
    """MF-8: a plain retry of it would be stranded."""
    (outcome,) = bench.batch.handle([a_message(1, fail=99, deliveries=5)])
    assert isinstance(outcome, Dead)


def test_one_whose_attempts_are_spent_is_given_up_without_another(bench: BatchBench) -> None:
    """MF-8: it killed the process each time, so nothing was left but the count."""
    for _ in range(5):
        bench.batch.handle([a_message(1, fail=99)])
    (outcome,) = bench.batch.handle([a_message(1)])  # it would succeed now
    assert isinstance(outcome, Dead)
    assert bench.times("k-1") == 0


async def test_a_row_is_dead_once_its_dead_letter_is_stored_and_stays_so(bench: BatchBench) -> None:
    (outcome,) = bench.batch.handle([a_message(1, poison=True)])
    assert isinstance(outcome, Dead)
    assert outcome.reason == PROCESSING_ERROR
    assert bench.statuses() == {"k-1": "received"}, "not yet: the letter is not stored"
    assert outcome.commit is not None
    await outcome.commit(())
    assert bench.statuses() == {"k-1": "dead"}
    (again,) = bench.batch.handle([a_message(1, deliveries=2)])
    assert isinstance(again, Dead)


async def test_one_that_an_operator_sends_again_is_as_if_new(bench: BatchBench) -> None:
    (dead,) = bench.batch.handle([a_message(1, "k", poison=True)])
    assert isinstance(dead, Dead)
    assert dead.commit is not None
    await dead.commit(())
    (replayed,) = bench.batch.handle([a_message(9, "k", headers={"x-replay-count": "1"})])
    assert ids_of(replayed)
    assert bench.rows("SELECT status, attempts, stream_seq FROM events") == [("applied", 1, 9)]


def test_what_cannot_be_read_is_dead_and_never_stored(bench: BatchBench) -> None:
    unreadable, good = bench.batch.handle([a_message(1, body=b"\x00"), a_message(2)])
    assert isinstance(unreadable, Dead)
    assert unreadable.reason == VALIDATION_FAILED
    assert ids_of(good)
    assert bench.statuses() == {"k-2": "applied"}


def test_a_message_that_the_server_would_not_take_is_refused(tmp_path: Path) -> None:
    adapter = Saying()
    adapter.answers = (Outgoing("evt.a", "t", "x" * 1024 * 1024),)
    with a_batch_bench(tmp_path / "s.db", adapter) as bench:
        (outcome,) = bench.batch.handle([a_message(1)])
    assert isinstance(outcome, Dead)


def test_a_message_to_no_stream_of_ours_is_refused_before_it_holds_everything_up(
    tmp_path: Path,
) -> None:
    class Stray(Saying):
        answers = (Outgoing("elsewhere.x", "t"),)

    with a_batch_bench(tmp_path / "s.db", Stray()) as bench:
        (outcome,) = bench.batch.handle([a_message(1)])
    assert isinstance(outcome, Dead)
    assert outcome.fault.code == "unsendable"


@pytest.mark.parametrize(
    "answer",
    [
        Outgoing("evt.*", "t"),
        Outgoing("evt.a b", "t"),
        Outgoing("evt.a", "a b"),
        Outgoing("evt.a", "t", object()),
    ],
)
def test_what_can_be_no_message_is_refused(tmp_path: Path, answer: Outgoing) -> None:
    adapter = Saying()
    adapter.answers = (answer,)
    with a_batch_bench(tmp_path / "s.db", adapter) as bench:
        (outcome,) = bench.batch.handle([a_message(1)])
    assert isinstance(outcome, Dead)


class Saying:
    """An agent that sends what it is told to."""

    name = "saying"
    answers: tuple[Outgoing, ...] = ()

    def receive(self, envelope: Envelope) -> None:
        if envelope.type == "never":
            raise Poison("never")

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        return self.answers
