"""Tables by their address: sorted, searched, bounded, exported."""

import orjson
import pytest

from router.shell.table import Column, Table, choose_rows, view_table, write_csv, write_json

COLUMNS = (Column("name", "Name"), Column("count", "Count", "number"))
ROWS = [
    {"name": "beta", "count": 2},
    {"name": "Alpha", "count": 10},
    {"name": "gamma", "count": None},
    {"name": "delta", "count": 1.5},
]
TABLE = Table(columns=COLUMNS, rows=ROWS, empty="nothing")


def names(**params: str) -> list[object]:
    return [row["name"] for row in choose_rows(TABLE, params)]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["beta", "Alpha", "gamma", "delta"]),
        ({"sort": "name"}, ["Alpha", "beta", "delta", "gamma"]),
        ({"sort": "count"}, ["delta", "beta", "Alpha", "gamma"]),
        ({"sort": "-count"}, ["Alpha", "beta", "delta", "gamma"]),
        ({"sort": "--count"}, ["beta", "Alpha", "gamma", "delta"]),
        ({"sort": "nothing"}, ["beta", "Alpha", "gamma", "delta"]),
        ({"q": "ALP"}, ["Alpha"]),
        ({"q": "1"}, ["Alpha", "delta"]),
    ],
)
def test_rows_are_those_that_the_address_wants(params: dict[str, str], expected: list[str]) -> None:
    assert names(**params) == expected


@pytest.mark.parametrize(
    ("limit", "shown"), [("2", 2), ("0", 4), ("-1", 4), ("x", 4), ("99999999", 4), ("٣", 4)]
)
def test_a_limit_that_is_none_means_nothing(limit: str, shown: int) -> None:
    view = view_table(TABLE, {"limit": limit})
    assert (len(view.shown), view.matching) == (shown, 4)


def test_a_page_shows_no_more_rows_than_it_may() -> None:
    many = Table(
        columns=COLUMNS,
        rows=[{"name": str(number), "count": number} for number in range(5_000)],
        empty="",
    )
    assert (len(view_table(many, {}).shown), len(view_table(many, {"limit": "9999"}).shown)) == (
        100,
        1_000,
    )


def test_a_heading_sorts_and_turns_round_and_keeps_the_filters() -> None:
    assert view_table(TABLE, {"q": "a"}).sorts["count"] == ("?q=a&sort=-count", "")
    assert view_table(TABLE, {"sort": "-count"}).sorts["count"] == ("?sort=count", "descending")
    assert view_table(TABLE, {"sort": "count"}).sorts["count"] == ("?sort=-count", "ascending")
    assert view_table(TABLE, {"q": "a&b", "other": "x"}).exports["csv"] == "?q=a%26b&format=csv"


def test_a_csv_has_no_formula_and_no_character_that_steers_a_terminal() -> None:
    rows = [{"name": "=HYPERLINK(1)", "count": -1}, {"name": "\x1b[31m,\n", "count": None}]
    assert write_csv(TABLE, rows) == 'name,count\n\'=HYPERLINK(1),-1\n"\\x1b[31m,\\n",\n'


def test_json_leaves_out_what_is_absent_and_what_is_no_column() -> None:
    rows = [{"name": "a", "count": None, "address": "/x"}, {"name": "b", "count": 1}]
    assert orjson.loads(write_json(TABLE, rows)) == [{"name": "a"}, {"name": "b", "count": 1}]
