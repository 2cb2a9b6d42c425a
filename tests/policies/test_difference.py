"""What differs between two documents, as a person would say it."""

import pytest

from router.policies.model.difference import ABSENT, DocumentDifference, find_differences
from tests.support.policy import a_document, a_provider


def test_equal_documents_do_not_differ() -> None:
    assert find_differences(a_document(timeout_ms=1), a_document(timeout_ms=1)) == []


def test_a_place_is_named_by_its_path() -> None:
    before, after = ({"sticky": {"ttl": ttl}, "metadata": {"a": {"b": 1}}} for ttl in ("10m", "1h"))
    assert find_differences(before, after) == [DocumentDifference("sticky.ttl", "10m", "1h")]


def test_what_came_and_what_went() -> None:
    assert find_differences({"timeout_ms": 5}, {"metadata": None}) == [
        DocumentDifference("timeout_ms", 5, ABSENT),
        DocumentDifference("metadata", ABSENT, None),
    ]


def test_entries_of_a_list_are_compared_by_name() -> None:
    before = a_document(a_provider("a", 10), a_provider("b", 20))
    after = a_document(a_provider("new", 5), a_provider("a", 11), a_provider("b", 20))
    assert find_differences(before, after) == [
        DocumentDifference("providers[a].weight", 10, 11),
        DocumentDifference("providers[new]", ABSENT, {"name": "new", "weight": 5}),
    ]


def test_another_order_of_those_that_stayed_is_told() -> None:
    before, after = (
        {"pre": [{"id": "a"}, {"id": "b"}, {"id": "c"}]},
        {"pre": [{"id": "b"}, {"id": "a"}]},
    )
    assert find_differences(before, after) == [
        DocumentDifference("pre[c]", {"id": "c"}, ABSENT),
        DocumentDifference("pre (order)", ["a", "b"], ["b", "a"]),
    ]


def test_a_whole_list_of_names_may_come() -> None:
    assert find_differences({}, {"pre": [{"id": "a"}]}) == [
        DocumentDifference("pre[a]", ABSENT, {"id": "a"})
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1, 2], [2, 1]),
        ([{"when": {}, "to": "a"}], [{"when": {}, "to": "b"}]),  # without names
        ([{"id": "a"}, {"id": "a"}], [{"id": "a"}]),  # the same name twice
        (1, True),  # JSON knows them apart
        ({"a": 1}, {"a": True}),
        ("10", 10),
    ],
)
def test_other_values_are_compared_whole(before: object, after: object) -> None:
    assert len(find_differences({"x": before}, {"x": after})) == 1
