"""The largest legal policy, and the longest that a request may put before its conditions: each has
a bound, and costs in proportion.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from router.policies.model import Policy, PolicyError, load_policy
from router.policies.model.breakers import ProviderRules
from router.policies.model.conditions import (
    LONGEST_PATH,
    MOST_CHOICES,
    MOST_ENTRIES,
    MOST_MEMBERS,
    MOST_STEPS,
    MOST_TEXT,
    ConditionInput,
    compile_condition,
)
from router.policies.model.fields import Problems
from tests.support.policy import a_policy, a_provider, a_request

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "policies.md"
TRIES = 5
MOST_RATIO = 24.0  # eight times the document; linear is eight, quadratic is sixty-four


def a_rule(**fields: Any) -> dict[str, Any]:
    return {"when": {"status": ["x"]}, "to": "p", **fields}


def load(**sections: Any) -> Policy:
    document = {"providers": [{"name": "p", "weight": 1}], **sections}
    return load_policy(orjson.dumps(document), "acme", "default").policy


def an_object(entries: int) -> dict[str, Any]:
    return {f"a{number}": number for number in range(entries)}


BOUNDS: dict[str, tuple[int, Callable[[int], Any]]] = {
    "providers": (
        500,
        lambda n: load(providers=[{"name": f"p{i}", "weight": 1} for i in range(n)]),
    ),
    "names of providers": (500, lambda n: load(providers=[f"p{i}" for i in range(n)])),
    "weights": (
        500,
        lambda n: load(providers=None, weights={f"p{i}": 1 for i in range(n)}),
    ),
    "fallbacks": (100, lambda n: load(fallbacks=[a_rule() for _ in range(n)])),
    "pre": (32, lambda n: load(pre=[{"id": f"e{i}"} for i in range(n)])),
    "nested extensions": (
        32,
        lambda n: load(extensions={"post": [{"id": f"e{i}"} for i in range(n)]}),
    ),
    "entries of a condition": (MOST_ENTRIES, lambda n: load(fallbacks=[a_rule(when=an_object(n))])),
    "all conditions": (
        256,
        lambda n: load(
            fallbacks=[a_rule(when=an_object(16))] * (n // 16) + [a_rule(when=an_object(n % 16))]
        ),
    ),
    "values to be equal to": (
        MOST_CHOICES,
        lambda n: load(fallbacks=[a_rule(when={"a.b": list(range(n))})]),
    ),
    "members of a constant": (
        MOST_MEMBERS,
        lambda n: load(fallbacks=[a_rule(when={"in": [{"var": "a"}, list(range(n))]})]),
    ),
    "steps of a path": (
        MOST_STEPS,
        lambda n: load(fallbacks=[a_rule(when={".".join(["context", *"a" * n]): 1})]),
    ),
    "pauses": (10, lambda n: load(fallbacks=[a_rule(backoff=[1] * n)])),
    "config of an extension": (
        64 * 1024 - 8,
        lambda n: load(pre=[{"id": "e", "config": {"x": "y" * n}}]),
    ),
    "bytes": (256 * 1024 - 59, lambda n: load(metadata={"x": "y" * n})),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_each_part_of_a_policy_is_taken_up_to_its_bound_and_refused_above(name: str) -> None:
    most, make = BOUNDS[name]
    assert isinstance(make(most), Policy)
    with pytest.raises(PolicyError):
        make(most + 1)


def test_too_many_are_told_before_anything_is_read() -> None:
    with pytest.raises(PolicyError) as refused:
        load(providers=["?" * 5] * 501)
    assert refused.value.errors == (("providers", "has 501 entries where 500 are allowed"),)


# -- what a request may bring ----------------------------------------------------------------------


def holds(when: dict[str, Any], **context: Any) -> bool:
    problems = Problems()
    condition = compile_condition(when, "when", problems)
    problems.raise_if_any()
    return condition(ConditionInput(a_request(**context)))


def test_a_condition_looks_into_lists_and_texts_up_to_a_length() -> None:
    within = {"in": ["x", {"var": "context.tags"}]}
    assert holds(within, tags=["y"] * (MOST_MEMBERS - 1) + ["x"])
    assert not holds(within, tags=["x"] * (MOST_MEMBERS + 1))
    assert holds(within, tags="y" * (MOST_TEXT - 1) + "x")
    assert not holds(within, tags="x" * (MOST_TEXT + 1))


def test_two_parts_of_a_request_are_compared_where_they_are_simple() -> None:
    same = {"==": [{"var": "context.a"}, {"var": "context.b"}]}
    assert holds(same, a="x", b="x")
    assert not holds(same, a=[1], b=[1])
    assert not holds({"!=": [{"var": "context.a"}, {"var": "context.b"}]}, a=[1], b=[2])
    assert holds({"==": [{"var": "context.a"}, [1]]}, a=[1])


def test_a_kind_is_part_of_a_value_as_before() -> None:
    assert [
        holds({"a": [1, "5xx"]}, a=value)
        for value in (1, 1.0, True, "1", 503, "503", "5xx", [1], None)
    ] == [*(True, True, False, False), *(True, True, True, False, False)]
    within = {"in": [{"var": "context.a"}, [1, "5xx", [2]]]}
    assert [holds(within, a=value) for value in (1, True, "1", 503, "503", [2], [3])] == [
        True,
        False,
        False,
        True,
        True,
        True,
        False,
    ]


# -- proportion ------------------------------------------------------------------------------------

SHAPES: dict[str, Callable[[int], bytes]] = {
    "providers that bear one name": lambda n: _providers([{"name": "p", "weight": 1}] * (n // 64)),
    "providers with names of their own": lambda n: _providers(
        [{"name": f"p{i}", "weight": 1} for i in range(n // 64)]
    ),
    "providers that are wrong": lambda n: _providers(
        [{f"k{j}": j for j in range(8)} for _ in range(n // 64)]
    ),
    "unknown keys": lambda n: orjson.dumps({f"key number {i}": i for i in range(n // 32)}),
    "a key of slashes": lambda n: orjson.dumps({"/" * n + " @": 1}),
    "conditions": lambda n: orjson.dumps(
        {"fallbacks": [a_rule(when={f"a{i}.b": [1, 2]}) for i in range(n // 320)]}
    ),
    "lists in metadata": lambda n: b'{"metadata":{"x":[%b]}}' % b",".join([b"[]"] * (n // 3)),
    "deep metadata": lambda n: (
        b'{"metadata":{"x":[%b]}}' % b",".join([b"[" * 50 + b"]" * 50] * (n // 101))
    ),
}


def _providers(providers: list[Any]) -> bytes:
    return orjson.dumps({"providers": providers})


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_a_document_costs_in_proportion(shape: str) -> None:
    small, large = SHAPES[shape](4_000), SHAPES[shape](32_000)
    ratio = min(_cost(large) / max(_cost(small), 20e-6) for _ in range(TRIES))
    assert ratio < MOST_RATIO


def _cost(document: bytes) -> float:
    began = time.thread_time()
    for _ in range(3):
        try:
            load_policy(document, "acme", "default")
        except PolicyError:
            continue
    return time.thread_time() - began


# -- one tenant's policies are its own cost --------------------------------------------------------


def test_a_change_of_one_tenants_policy_leaves_the_rules_of_the_others_as_they_are() -> None:
    theirs = a_policy(a_provider("p"), tenant="theirs", circuit_breaker={"failure_threshold": 4})
    mine, changed = (
        a_policy(a_provider("p"), tenant="mine", circuit_breaker={"failure_threshold": most})
        for most in (3, 5)
    )
    before = ProviderRules({("mine", "default"): mine, ("theirs", "default"): theirs})
    known, old = before.find("theirs", "p"), before.find("mine", "p")
    after = ProviderRules({("mine", "default"): changed, ("theirs", "default"): theirs}, before)
    new = after.find("mine", "p")
    assert known is not None
    assert old is not None
    assert new is not None
    assert after.find("theirs", "p") is known
    assert (old.failure_threshold, new.failure_threshold) == (3, 5)
    assert after.find("unknown", "p") is None


def test_the_page_tells_the_bounds_of_a_condition() -> None:
    page = " ".join(PAGE.read_text().split())
    bounds = (
        f"Bounds: {MOST_ENTRIES} entries in one `when`, {MOST_CHOICES} values to be equal to, "
        f"{MOST_MEMBERS:_} members or {MOST_TEXT:_} characters that `in` looks into, "
        f"{MOST_STEPS} steps or {LONGEST_PATH} characters of a path."
    )
    assert bounds.replace("_", " ") in page
