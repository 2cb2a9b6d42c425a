"""The page of threats asks of every published field who gains by it."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from router.contracts.shapes.message_shape import list_fields
from router.operate.catalogue import build_shapes

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "threats.md"
HEADERS = (
    "tenant_id",
    "trace_id",
    "version",
    "traceparent",
    "cp_phase",
    "Nats-Msg-Id",
    "Reply-To",
    "Router-Deadline-Ms",
    "Router-Stream",
)
COLUMNS = 6


def read_rows() -> list[list[str]]:
    """The rows of the table, without its head."""
    _, _, rest = PAGE.read_text().partition('<a id="fields"></a>')
    lines = [
        line
        for line in rest.partition('<a id="shared"></a>')[0].splitlines()
        if line.startswith("| ")
    ]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def list_patterns(message: str) -> list[str]:
    named = [row[1] for row in read_rows() if row[0].strip("` ") == message]
    return [
        part.strip("` ")
        for cell in named
        for part in cell.replace(" and other control headers", "").split(",")
    ]


def list_names(message: str) -> Iterator[str]:
    """The message's fields; one inside `data`, `message` or `task` is the one of its name."""
    for field in list_fields(build_shapes()[message].body):
        inner = field.removeprefix("data.")
        yield (
            inner
            if message == "dead-letter"
            else inner.removeprefix("message.").removeprefix("task.")
        )


def find_missing(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if not any(fnmatchcase(name, pattern) for pattern in patterns)]


@pytest.mark.parametrize("message", sorted(build_shapes()))
def test_every_field_of_a_message_stands_in_the_table(message: str) -> None:
    assert find_missing(sorted(set(list_names(message))), list_patterns(message)) == []


def test_the_headers_stand_in_it_too() -> None:
    assert find_missing(HEADERS, list_patterns("headers")) == []


def test_every_row_says_who_writes_it_who_gains_and_where_it_is_shown() -> None:
    rows = read_rows()
    assert [row for row in rows if len(row) != COLUMNS] == []
    assert [row[:2] for row in rows if not row[2] or not row[3] or "](" not in row[5]] == []


def test_a_field_that_is_not_in_it_is_missed() -> None:
    assert find_missing(["cost", "decision.reason"], ["status", "decision.*"]) == ["cost"]
