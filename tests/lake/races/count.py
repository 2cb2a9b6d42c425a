"""What a race left in the tables, by its tenant: events that are lost or double, and sums that are
not theirs.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from router.lake.files import read_columns
from router.lake.jobs.seal import is_unchanged, read_content
from router.lake.warehouse import Seal, Warehouse
from tests.lake.races.writer import find_day

NOTHING = (0, Decimal(0))


class RaceCount(NamedTuple):
    lost: int = 0
    double: int = 0
    wrong: int = 0  # sums, sealed days

    def __add__(self, other: object) -> "RaceCount":
        assert isinstance(other, RaceCount)
        return RaceCount(
            self.lost + other.lost, self.double + other.double, self.wrong + other.wrong
        )


def count_races(warehouse: Warehouse, sequences: dict[int, range]) -> dict[int, RaceCount]:
    """By race, as a reader of the newest cut sees it. `sequences`: of each race."""
    silver, bronze = (
        Counter(_read(warehouse, "silver", "seq")),
        Counter(_read(warehouse, "bronze", "seq")),
    )
    sums = [_sum_by_tenant(warehouse, table) for table in ("gold_hour", "gold_day")]
    seals = {seal.first_day: seal for seal in warehouse.seals()}
    return {
        race: _count_rows(span, (silver, bronze))
        + _count_sums(span, [one.get(f"race-{race}", NOTHING) for one in sums])
        + RaceCount(wrong=_find_wrong_seals(warehouse, seals, race))
        for race, span in sequences.items()
    }


def _count_rows(span: range, tables: Sequence[Counter[object]]) -> RaceCount:
    lost = sum(not table[seq] for seq in span for table in tables)
    return RaceCount(lost, sum(max(0, table[seq] - 1) for seq in span for table in tables))


def _count_sums(span: range, found: Sequence[tuple[int, Decimal]]) -> RaceCount:
    right = (len(span), sum((Decimal(seq) + Decimal("0.5") for seq in span), Decimal(0)))
    return RaceCount(
        double=sum(max(0, count - len(span)) for count, _ in found),
        wrong=sum(one != right for one in found),
    )


def _read(warehouse: Warehouse, table: str, name: str) -> list[object]:
    values: list[object] = read_columns(warehouse, table, warehouse.files(table), [name])[
        name
    ].to_pylist()
    return values


def _sum_by_tenant(warehouse: Warehouse, table: str) -> dict[str, tuple[int, Decimal]]:
    sums: defaultdict[str, tuple[int, Decimal]] = defaultdict(lambda: NOTHING)
    for row in read_columns(
        warehouse, table, warehouse.files(table), ["tenant_id", "count", "cost"]
    ).to_pylist():
        count, cost = sums[row["tenant_id"]]
        sums[row["tenant_id"]] = count + row["count"], cost + row["cost"]
    return dict(sums)


def _find_wrong_seals(warehouse: Warehouse, seals: dict[str, Seal], race: int) -> int:
    """A sealed day reads as it was sealed, and nothing was added to it since."""
    seal, day = seals.get(str(find_day(race))), find_day(race)
    if seal is None:
        return 0
    now = read_content(warehouse, day, day, warehouse.head(), seal.columns)
    return (not is_unchanged(warehouse, seal)) + ((now.rows, now.hash) != (seal.rows, seal.hash))
