"""`when`: what is true of which request."""

import pytest

from router.policies.model.conditions import ConditionInput, compile_condition
from router.policies.model.fields import Problems
from tests.support.policy import a_document, a_request, a_rule, errors_of

CONTEXT = {
    "n": 5,
    "text": "m",
    "flag": True,
    "list": ["x", 2],
    "user": {"tier": "gold", "none": None},
}


def _is_true(when: dict[str, object], status: object = None) -> bool:
    problems = Problems()
    condition = compile_condition(when, "when", problems)
    problems.raise_if_any()
    request = a_request(limits={"max_cost": 2}, **CONTEXT)
    return condition(ConditionInput(request) if status is None else ConditionInput(request, status))


def _var(path: str) -> dict[str, str]:
    return {"var": path}


N, TEXT, FLAG, GONE = (
    _var("context.n"),
    _var("context.text"),
    _var("context.flag"),
    _var("context.gone"),
)


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"==": [N, 5]},
        {"==": [N, 5.0]},
        {"!=": [N, 6]},
        {">": [N, 4]},
        {"<": [N, 6]},
        {">=": [N, 5]},
        {"<=": [N, 5]},
        {"<": [TEXT, "n"]},
        {"==": [FLAG, True]},
        {"in": [N, [4, 5]]},
        {"in": ["x", _var("context.list")]},
        {"in": ["old", _var("context.user.tier")]},
        {"n": 5},
        {"n": [4, 5]},
        {"user.tier": "gold"},
        {"context.user.tier": ["silver", "gold"]},
        {"message.message_type": "chat"},
        {"message.payload.text": "hi"},
        {"constraints.max_cost": 2},
        {">": [N, 4], "text": "m"},
        {"==": [_var("n"), N]},
        {"==": [1, 1]},
    ],
)
def test_it_is_true(when: dict[str, object]) -> None:
    assert _is_true(when)


@pytest.mark.parametrize(
    "when",
    [
        {"==": [N, 6]},
        {"!=": [N, 5]},
        {">": [N, 5]},
        {"<": [N, 5]},
        {">=": [N, 6]},
        {"<=": [N, 4]},
        {"in": [N, [4]]},
        {"n": []},
        {"n": None},
        {">": [N, 4], "text": "other"},
    ],
)
def test_it_is_false(when: dict[str, object]) -> None:
    assert not _is_true(when)


@pytest.mark.parametrize("op", ["==", "!=", ">", "<", ">=", "<=", "in"])
@pytest.mark.parametrize(
    "operands",
    [
        [GONE, 5],
        [5, GONE],
        [_var("context.user.none"), 5],
        [_var("context.n.deeper"), 5],
        [None, 5],
        [GONE, GONE],
    ],
)
def test_a_missing_operand_makes_every_operator_false(op: str, operands: list[object]) -> None:
    assert not _is_true({op: operands})


@pytest.mark.parametrize("op", ["==", "!=", ">", "<", ">=", "<=", "in"])
@pytest.mark.parametrize(
    "operands", [[N, "5"], [TEXT, 1], [FLAG, 1], [1, FLAG], [_var("context.user"), 1]]
)
def test_types_that_do_not_compare_make_every_operator_false(
    op: str, operands: list[object]
) -> None:
    assert not _is_true({op: operands})


@pytest.mark.parametrize("op", [">", "<", ">=", "<="])
def test_booleans_and_objects_have_no_order(op: str) -> None:
    assert not _is_true({op: [FLAG, False]})
    assert not _is_true({op: [_var("context.user"), _var("context.user")]})


@pytest.mark.parametrize(
    ("status", "belongs"),
    [
        (500, True),
        (599, True),
        ("503", True),
        ("5xx", True),
        (499, False),
        (600, False),
        ("50x", False),
        ("403", False),
        (True, False),
    ],
)
def test_a_status_class_is_its_hundred(status: object, belongs: bool) -> None:
    assert _is_true({"status": ["timeout", "5xx"]}, status) is belongs
    assert _is_true({"==": [_var("context.status"), "5xx"]}, status) is belongs
    assert _is_true({"in": [_var("status"), ["5xx"]]}, status) is belongs


@pytest.mark.parametrize("first", range(1, 6))
def test_there_is_a_class_for_each_hundred_of_statuses(first: int) -> None:
    for status in (100 * first, f"{first}99"):
        assert _is_true({"status": [f"{first}xx"]}, status)
        assert _is_true({"in": [_var("status"), [f"{first}xx"]]}, status)


def test_another_status_than_the_class_differs_from_it() -> None:
    assert _is_true({"!=": [_var("status"), "5xx"]}, 404)
    assert not _is_true({"!=": [_var("status"), "5xx"]}, 503)


def test_without_a_status_no_status_matches() -> None:
    assert not _is_true({"status": "timeout"})


@pytest.mark.parametrize(
    ("when", "path"),
    [
        ({"=": [1, 2]}, "when.="),
        ({"and": [{"n": 1}]}, "when.and"),
        ({"n": {"var": "context.n"}}, "when.n"),
        ({">": 3}, "when.>"),
        ({">": [1, 2, 3]}, "when.>"),
        ({">": [{"var": 3}, 2]}, "when.>[0]"),
        ({">": [{"var": "a", "b": 1}, 2]}, "when.>[0]"),
        ({">": [2, {"var": "a..b"}]}, "when.>[1]"),
        ({"message": "x"}, "when.message"),
        ({"message.unknown": "x"}, "when.message.unknown"),
    ],
)
def test_what_cannot_be_read_is_named(when: dict[str, object], path: str) -> None:
    assert f"fallbacks[0].{path}" in [
        where for where, _ in errors_of(a_document(fallbacks=[a_rule("only", when)]))
    ]
