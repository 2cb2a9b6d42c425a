"""Run races of a kind, a warehouse for every few, and count after each warehouse."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random

from msgspec import Struct, field

from router.lake.warehouse import Warehouse
from tests.lake.races.count import RaceCount, count_races
from tests.lake.races.kinds import KINDS, STEP, Race
from tests.lake.races.writer import Writer

RACES_OF_A_WAREHOUSE = 25

WITHOUT_LOOK = "without the look"

Locate = Callable[[], str]


class RaceTally(Struct, kw_only=True):
    """What races of one kind came to."""

    kind: str
    place: str
    control: str = ""
    races: int = 0
    lost: int = 0
    double: int = 0
    wrong: int = 0
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.double or self.wrong)

    def add(self, other: "RaceTally") -> None:
        for name in ("races", "lost", "double", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.ends = dict(sorted((Counter(self.ends) + Counter(other.ends)).items()))


def run_races(
    kind: str,
    races: int,
    locate: Locate,
    place: str,
    *,
    environment: Mapping[str, str] | None = None,
    control: str = "",
    seed: int = 5,
) -> Iterator[RaceTally]:
    """Yield a tally for each warehouse; `locate` names a new one."""
    tally, draw, is_control = (
        RaceTally(kind=kind, place=place, control=control),
        Random(seed),
        control == WITHOUT_LOOK,
    )
    for begin in range(0, races, RACES_OF_A_WAREHOUSE):
        home, many = locate(), min(RACES_OF_A_WAREHOUSE, races - begin)
        with (
            Writer(home, environment, is_control=is_control) as one,
            Writer(home, environment, is_control=is_control) as other,
        ):
            yield _run(tally, home, many, draw, (one, other))


def _run(
    tally: RaceTally, home: str, races: int, draw: Random, writers: tuple[Writer, Writer]
) -> RaceTally:
    run, batches = KINDS[tally.kind]
    ends: Counter[str] = Counter()
    sequences = {
        number: range(number * batches * STEP + 1, (number + 1) * batches * STEP + 1)
        for number in range(races)
    }
    for number, span in sequences.items():
        ends[" / ".join(run(Race(number, span.start, draw), *draw.sample(writers, 2)))] += 1
    found = sum(count_races(Warehouse(home), sequences).values(), RaceCount())
    return RaceTally(
        kind=tally.kind,
        place=tally.place,
        control=tally.control,
        races=races,
        ends=dict(ends),
        **found._asdict(),
    )
