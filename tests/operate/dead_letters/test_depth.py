"""How many dead letters stand there, without reading them all each time."""

import pytest

from router.delivery.wire.api import JetStream
from router.operate.dead_letters import DepthGauge, depth
from router.process.observability import Metrics
from tests.support.dead_letters import DeadLetterStreams, a_dead_letter, a_stored_dead_letter
from tests.support.made_anew import create_stream


def _depth(house: DeadLetterStreams, metrics: Metrics | None = None) -> DepthGauge:
    metrics = metrics or Metrics()
    return DepthGauge(house.jetstream, house.letters, metrics.dead_letters_stored, metrics.subject)


async def test_dead_letters_are_counted_by_what_failed_and_why(house: DeadLetterStreams) -> None:
    await house.store(3)
    await house.store(2, make=lambda message: a_dead_letter(message, reason="maxdeliver_exhausted"))
    await house.store(
        1,
        make=lambda _: a_stored_dead_letter(
            b"?", f"{house.subject}.dlq", **{"x-dlq-reason": "unknown reason"}
        ),
    )
    metrics = Metrics()
    await _depth(house, metrics).look()
    assert dict(metrics.dead_letters_stored.family().series) == {
        (house.subject, "validation_failed"): 3,
        (house.subject, "maxdeliver_exhausted"): 2,
        (house.subject, "unreadable"): 1,
    }


async def test_new_dead_letters_are_added_to_what_was_counted(
    house: DeadLetterStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.store(2)
    counted = _depth(house)
    await counted.look()
    monkeypatch.setattr(counted, "_begin_anew", lambda: pytest.fail("it counted all again"))
    await house.store(3)
    await counted.look()
    assert counted.counts == {(house.subject, "validation_failed"): 5}


async def test_dead_letters_that_were_removed_are_no_longer_counted(
    house: DeadLetterStreams,
) -> None:
    await house.store(3)
    metrics = Metrics()
    counted = _depth(house, metrics)
    await counted.look()
    await house.replay(1, 3)
    await counted.look()
    assert counted.counts == {(house.subject, "validation_failed"): 1}
    await house.replay()
    await counted.look()
    assert metrics.dead_letters_stored.family().series == {(house.subject, "validation_failed"): 0}


async def test_one_look_reads_no_more_than_its_share_and_shows_whole_counts_only(
    house: DeadLetterStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depth, "MAX_READ", 2)
    await house.store(5)
    counted = _depth(house)
    seen = []
    for _ in range(3):
        await counted.look()
        seen.append(sum(counted.counts.values()))
    assert seen == [0, 0, 5]


async def test_a_stream_that_was_made_anew_is_counted_anew(house: DeadLetterStreams) -> None:
    await house.store(3)
    counted = _depth(house)
    await counted.look()
    await house.jetstream.ask(f"STREAM.DELETE.{house.letters}")
    await counted.look()
    assert counted.counts == {}
    await create_stream(house.jetstream, house.letters, {"subjects": [f"{house.subject}.dlq"]})
    await house.store(2)
    await counted.look()
    assert sum(counted.counts.values()) == 2


@pytest.mark.parametrize(
    ("pattern", "subject", "original"),
    [
        ("{original_subject}.dlq", "a.b.dlq", "a.b"),
        ("dead.{original_subject}", "dead.a.b", "a.b"),
        ("dead.letters", "dead.letters", "dead.letters"),
        ("{original_subject}.dlq", "caf.exec.other", "caf.exec.other"),
    ],
)
def test_the_original_s_subject_is_read_from_the_dead_letter_s(
    pattern: str, subject: str, original: str
) -> None:
    assert depth._inverse(pattern)(subject) == original


async def test_a_stream_that_is_not_there_has_no_dead_letters(jetstream: JetStream) -> None:
    metrics = Metrics()
    await DepthGauge(jetstream, "NOWHERE", metrics.dead_letters_stored, metrics.subject).look()
    assert metrics.dead_letters_stored.family().series == {}
