"""Who races whom. Each function runs one race and returns how both ended; `race.first` is the first
sequence that no table has.
"""

from collections.abc import Callable, Mapping
from random import Random
from time import monotonic
from typing import NamedTuple

from tests.lake.races.writer import Writer

STEP = 2  # messages of a batch
MOST_STILL_S = 1.0


class Race(NamedTuple):
    number: int  # in its warehouse
    first: int
    draw: Random

    def end(self, batches: int) -> int:
        return self.first + batches * STEP - 1


Run = Callable[[Race, Writer, Writer], tuple[str, str]]


def commit_the_same_batch(race: Race, one: Writer, other: Writer) -> tuple[str, str]:
    for writer in (one, other):
        writer.batch(race.number, race.first, race.end(1))
    return _start(race, one, other)


def cut_otherwise(race: Race, one: Writer, other: Writer) -> tuple[str, str]:
    """The same messages, in batches that overlap in part."""
    one.ingest(race.number, race.end(2), 2 * STEP)
    other.ingest(race.number, race.end(2), race.draw.choice((1, 2, STEP, STEP + 1)))
    return _start(race, one, other)


def stand_still(race: Race, one: Writer, other: Writer) -> tuple[str, str]:
    """One writer is stopped anywhere in its commits; the other one goes on beyond; then the first
    one wakes up.
    """
    one.batch(race.number, race.first, race.end(1))
    one.go()
    one.ends_within(race.draw.uniform(0, _still_s))
    one.stop()
    began = monotonic()
    other.ingest(race.number, race.end(2), STEP).go()
    told = other.wait()
    _measure(monotonic() - began)
    one.resume()
    return one.wait(), told


def commit_beside_a_compaction(race: Race, one: Writer, other: Writer) -> tuple[str, str]:
    one.ingest(race.number, race.end(2), STEP)
    other.compact()
    return _start(race, one, other)


def commit_beside_a_seal(race: Race, one: Writer, other: Writer) -> tuple[str, str]:
    """Of the day of the batches."""
    one.ingest(race.number, race.end(1), STEP).go()
    one.wait()
    one.ingest(race.number, race.end(2), STEP)
    other.seal(race.number)
    return _start(race, one, other)


def _start(race: Race, one: Writer, other: Writer) -> tuple[str, str]:
    first, second = race.draw.sample((one, other), 2)
    first.go()
    second.go()
    return one.wait(), other.wait()


# about half of what two batches took last: where a writer is stopped is drawn from it
_still_s = 0.1


def _measure(seconds: float) -> None:
    global _still_s
    _still_s = min(seconds / 2, MOST_STILL_S)


# How many batches of messages each needs.
KINDS: Mapping[str, tuple[Run, int]] = {
    "two writers, the same batch": (commit_the_same_batch, 1),
    "two writers, other cuts": (cut_otherwise, 2),
    "a writer that stood still": (stand_still, 2),
    "an ingest beside a compaction": (commit_beside_a_compaction, 2),
    "an ingest beside a seal": (commit_beside_a_seal, 2),
}
