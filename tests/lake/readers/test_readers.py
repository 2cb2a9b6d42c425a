"""DuckDB, Polars and pandas read the same sums as were written: at every version that a cut names,
and while an ingest runs.

Polars and pandas are installed by `make readers`, beside and not in the environment of the tests:
with pandas there, Arrow imports it into every process of the lake, and what is measured of these
would change.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from router.lake.jobs.maintenance import compact
from tests.support.lake_jobs import Lake, a_body

PROGRAM = Path(__file__).with_name("read_sums.py")
OTHER_PYTHON = Path(__file__).parents[3] / ".venv-readers/bin/python"
TOOLS = ("duckdb", "polars", "pandas")
FEW, MANY = 4, 100  # cuts

Sums = dict[str, Any]  # {"cut": 7, "silver": [events, cost], "gold_day": [events, cost]}


class Reader:
    """One tool in a process of its own."""

    def __init__(self, tool: str, home: Path | str) -> None:
        python = sys.executable if tool == "duckdb" else str(OTHER_PYTHON)
        command = [python, str(PROGRAM), tool, str(home)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, cut: int | str) -> Sums:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{cut}\n")
        self._process.stdin.flush()
        sums: Sums = json.loads(self._process.stdout.readline())
        return sums

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture(params=TOOLS)
def reader(request: pytest.FixtureRequest, lake: Lake) -> Iterator[Reader]:
    if request.param != "duckdb" and not OTHER_PYTHON.exists():
        pytest.skip(f"NO {request.param} IS HERE: `make readers` installs it")
    made = Reader(request.param, lake.home)
    yield made
    made.end()


def test_every_version_that_a_cut_names_has_its_sums(lake: Lake, reader: Reader) -> None:
    """UL-6."""
    _compare_each_cut(lake, reader, FEW)


def test_a_cut_is_read_wholly_while_an_ingest_runs(lake: Lake, reader: Reader) -> None:
    """UL-3, UL-6."""
    _compare_meanwhile(lake, reader, FEW)


@pytest.mark.matrix
def test_a_hundred_versions_have_their_sums(lake: Lake, reader: Reader) -> None:
    """UL-6."""
    _compare_each_cut(lake, reader, MANY)


@pytest.mark.matrix
def test_a_hundred_cuts_are_read_wholly_while_an_ingest_runs(lake: Lake, reader: Reader) -> None:
    """UL-3, UL-6."""
    _compare_meanwhile(lake, reader, MANY)


def _compare_each_cut(lake: Lake, reader: Reader, cuts: int) -> None:
    """The tables are compacted halfway."""
    for number in range(cuts):
        _take(lake, number)
        if number == cuts // 2:
            compact(lake.warehouse)
    ingested = [
        number
        for number in range(1, lake.warehouse.head() + 1)
        if (cut := lake.warehouse.cut(number)) and cut.kind == "ingest"
    ]
    assert len(ingested) == cuts
    for number, cut in enumerate(ingested):
        assert reader.read(cut) == {"cut": cut, **_sum_until(number)}


def _compare_meanwhile(lake: Lake, reader: Reader, reads: int) -> None:
    """An ingest runs as long as the reader reads; each read is of one cut, whatever was committed
    meanwhile.
    """
    _take(lake, 0)
    read: list[Sums] = []
    reading = threading.Thread(
        target=lambda: read.extend(reader.read("newest") for _ in range(reads))
    )
    reading.start()
    number = 1
    while reading.is_alive():
        _take(lake, number)
        number += 1
    reading.join()
    assert read == [{"cut": one["cut"], **_sum_until(one["cut"] - 1)} for one in read]
    assert len(read) == reads


def _take(lake: Lake, number: int) -> None:
    """Two events, and one that repeats the first batch's."""
    lake.take(
        a_body(f"r-{number}", cost=f"0.{number + 1:09}"),
        a_body(f"s-{number}", cost="1"),
        a_body("r-0", cost="0.000000001"),
    )


def _sum_until(number: int) -> Sums:
    batches = number + 1
    cost = batches + Decimal(batches * (batches + 1) // 2).scaleb(-9)
    return {table: [2 * batches, f"{cost:.9f}"] for table in ("silver", "gold_day")}
