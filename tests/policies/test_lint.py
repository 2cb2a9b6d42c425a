"""What lint says of policies that are legal and look wrong."""

import pytest

from router.policies.model import PolicyFinding, lint
from tests.support.policy import a_policy, a_provider, a_rule


def _paths(**sections: object) -> list[str]:
    return [finding.path for finding in lint(a_policy(**sections))]


def _uses(count: int) -> list[dict[str, object]]:
    return [{"id": f"e{n}"} for n in range(count)]


def test_a_plain_policy_is_praised() -> None:
    assert (
        lint(
            a_policy(
                a_provider("a"),
                a_provider("b", 0),
                fallbacks=[a_rule("b", {"status": ["timeout", "5xx"]})],
            )
        )
        == []
    )


def test_a_provider_that_can_never_win() -> None:
    findings = lint(
        a_policy(a_provider("a"), a_provider("zero", 0), a_provider("off", enabled=False))
    )
    assert [finding.path for finding in findings] == ["providers[1]", "providers[2]"]


def test_parameters_that_others_say() -> None:
    idle = {"stream": True, "model": "m-2", "temperature": 1}
    findings = lint(a_policy(a_provider("a", model="m-1", parameters=idle), a_provider("b")))
    assert [(finding.path, finding.severity) for finding in findings] == [
        ("providers[0].parameters.model", "warning"),
        ("providers[0].parameters.stream", "warning"),
    ]


def test_a_fallback_that_leads_nowhere() -> None:
    policy = a_policy(
        a_provider("a"),
        a_provider("off", enabled=False),
        fallbacks=[a_rule("unknown", {}), a_rule("off", {})],
    )
    assert [finding.path for finding in lint(policy)] == [
        "providers[1]",
        "fallbacks[0].to",
        "fallbacks[1].to",
    ]


def test_a_pipeline_over_the_recommended_size() -> None:
    assert _paths(pre=_uses(2), validators=_uses(2)) == []
    assert _paths(pre=_uses(2), validators=_uses(2), post=_uses(1)) == ["pipeline"]
    assert _paths(pre=_uses(3)) == ["pre"]


def test_a_pipeline_that_refuses_every_request_is_an_error() -> None:
    assert PolicyFinding("pipeline", "error", lint(a_policy(pre=_uses(6)))[-1].message) in lint(
        a_policy(pre=_uses(6))
    )


V = {"var": "context.n"}


@pytest.mark.parametrize(
    "when",
    [
        {"==": ["a", 1]},
        {">": [V, True]},
        {"<": [V, [1]]},
        {"==": [V, None]},
        {"in": [V, 3]},
        {"in": [3, "abc"]},
        {"in": [None, [1]]},
        {"n": None},
        {"n": []},
        {"<": ["5xx", 500]},
    ],
)
def test_a_comparison_that_can_never_be_true(when: dict[str, object]) -> None:
    (name,) = when
    assert _paths(fallbacks=[a_rule("only", when)]) == [f"fallbacks[0].when.{name}"]
    assert _paths(validators=[{"id": "v", "when": when}]) == [f"validators[0].when.{name}"]


@pytest.mark.parametrize(
    "when",
    [
        {"==": [V, 1]},
        {"==": [503, "5xx"]},
        {">": [V, "a"]},
        {"in": [V, [1, "a"]]},
        {"in": ["a", V]},
        {"in": [V, "abc"]},
        {"n": 0},
    ],
)
def test_a_comparison_that_may_be_true(when: dict[str, object]) -> None:
    assert _paths(fallbacks=[a_rule("only", when)]) == []
