"""The specifications' tables as data: each is held by a test, and what is settled otherwise stands
in contracts.md with its reason.
"""

import re
from pathlib import Path

import pytest

from tests.support.spec_tables import KINDS, find_faults, find_faults_in, read_tables

TESTS = Path(__file__).parents[1]
CONTRACTS = (TESTS.parent / "docs" / "reference" / "contracts.md").read_text()
SPECIFICATIONS = {
    "NATS Subjects",
    "Protobuf to NATS Subject Mapping",
    "SR-MESSAGE-CONTRACTS",
    "SDS-047",
    "Runtime JetStream Specification",
}


def test_all_five_specifications_have_tables() -> None:
    assert {table["specification"] for table in read_tables().values()} == SPECIFICATIONS


@pytest.mark.parametrize("name", read_tables())
def test_every_table_is_held_by_a_test(name: str) -> None:
    asked = re.compile(rf'find_faults(_in)?\(\s*"{name}"')
    files = (path for path in TESTS.rglob("test_spec_tables*.py") if path != Path(__file__))
    assert any(asked.search(path.read_text()) for path in files)


@pytest.mark.parametrize("name", read_tables())
def test_what_is_settled_otherwise_stands_in_the_table_of_contracts(name: str) -> None:
    rows = CONTRACTS.partition('<a id="table-fields"></a>')[2].partition("\n<a id=")[0]
    for path, entry in read_tables()[name].get("settled", {}).items():
        (row,) = (line for line in rows.splitlines() if f'<a id="{entry["rule"]}"></a>' in line)
        assert f"`{path.rpartition('.')[2]}`" in row or f"`{path}`" in row, path
        assert row.count("|") == 5
        assert len(row.split("|")[4].split()) > 3, "and says why"


@pytest.mark.parametrize("name", read_tables())
def test_every_type_is_known(name: str) -> None:
    table = read_tables()[name]
    kinds = {*table.get("required", {}).values(), *table.get("optional", {}).values()}
    kinds |= {entry["type"] for entry in table.get("settled", {}).values()}
    literal = re.compile(r"[A-Za-z0-9_.|]+")
    assert all(kind.rstrip("?") in KINDS or literal.fullmatch(kind) for kind in kinds)


def test_a_field_that_is_missing_empty_or_of_another_type_is_found() -> None:
    letter = {
        "original_subject": "s",
        "msg_id": "",
        "reason": "none",
        "error_code": "VALIDATION_FAILED",
        "message": {"id": "m"},
    }
    assert find_faults("dead_letter", letter) == [
        "timestamp: is missing",
        "message.subject: is missing",
        "msg_id: '' is no text",
        "reason: 'none' is no maxdeliver_exhausted|validation_failed|processing_error",
    ]
    assert find_faults("bus_headers", {}) == ["Nats-Msg-Id: is missing"]
    with pytest.raises(AssertionError, match="only 0 messages"):
        find_faults_in("usage", [], least=1)
