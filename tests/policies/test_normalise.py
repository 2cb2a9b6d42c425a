"""Every older form is read as the new one, with a warning that names the new form."""

import pytest

from router.policies.model import PreviousAttempt, parse_policy
from router.policies.model.policy import StickySessions
from tests.support.policy import (
    a_document,
    a_policy,
    a_provider,
    a_request,
    a_rule,
    decide,
    errors_of,
)


def _warned(document: dict[str, object]) -> list[str]:
    return [finding.path for finding in parse_policy(document, "acme", "default").warnings]


@pytest.mark.parametrize("weights", [{"a": 0.7, "b": 0.3}, {"a": 70, "b": 30}])
def test_a_map_of_weights(weights: dict[str, float]) -> None:
    document = {"weights": weights}
    assert [
        (p.name, p.weight) for p in parse_policy(document, "acme", "default").policy.providers
    ] == [("a", 70), ("b", 30)]
    assert _warned(document) == ["weights"]
    assert a_policy(providers=None, weights={"only": 1}).providers[0].weight == 100


def test_a_map_of_weights_beside_a_list_of_names_weighs_them() -> None:
    parsed = parse_policy(
        {"providers": ["a", {"id": "b"}], "weights": {"a": 20, "b": 80}}, "acme", "default"
    )
    assert [(p.name, p.weight, p.priority) for p in parsed.policy.providers] == [
        ("a", 20, 50),
        ("b", 80, 50),
    ]
    assert [finding.path for finding in parsed.warnings] == [
        "providers[0]",
        "providers[1].id",
        "weights",
    ]


@pytest.mark.parametrize("weights", [{"a": 1, "unknown": 1}, {"a": "much"}, [1], {"a": 140}])
def test_a_map_of_weights_that_fits_no_provider_is_an_error(weights: object) -> None:
    assert errors_of({"providers": ["a"], "weights": weights})


def test_names_are_an_order_of_preference() -> None:
    document = {"providers": ["first", "second"]}
    policy = parse_policy(document, "acme", "default").policy
    assert [(p.name, p.priority) for p in policy.providers] == [("first", 100), ("second", 99)]
    assert decide(policy) == ("first", "weighted", 50)
    many = parse_policy({"providers": [f"p{n}" for n in range(102)]}, "acme", "default").policy
    assert [p.priority for p in many.providers[-3:]] == [1, 0, 0]


def test_providers_with_an_id() -> None:
    policy = parse_policy(
        {"providers": [{"id": "a", "weight": 7}, {"id": "b"}]}, "acme", "default"
    ).policy
    assert [(p.name, p.weight) for p in policy.providers] == [("a", 7), ("b", 100)]


@pytest.mark.parametrize("fallback", ["b", {"provider": "b"}, {"provider": "b", "conditions": []}])
def test_a_single_fallback_is_the_last_resort(fallback: object) -> None:
    document = a_document(a_provider("a", 0), fallback=fallback)
    assert _warned(document) == ["fallback"]
    assert decide(parse_policy(document, "acme", "default").policy) == ("b", "fallback", 25)


def test_a_single_fallback_stands_behind_the_rules_and_out_of_the_way() -> None:
    document = a_document(
        a_provider("a"), fallbacks=[a_rule("c", {"status": "timeout"})], fallback="b"
    )
    policy = parse_policy(document, "acme", "default").policy
    assert decide(policy, a_request(status="timeout")) == ("c", "fallback", 25)
    assert decide(policy, a_request(status="overloaded")) == ("a", "weighted", 50)


def test_a_single_fallback_with_conditions_is_a_rule_of_statuses() -> None:
    policy = parse_policy(
        a_document(a_provider("a"), fallback={"provider": "b", "conditions": ["timeout"]}),
        "acme",
        "default",
    ).policy
    assert decide(policy, a_request(status="timeout")) == ("b", "fallback", 25)
    assert decide(policy, a_request()) == ("a", "weighted", 50)


def test_a_single_fallback_knows_no_retry() -> None:
    policy = parse_policy(
        a_document(a_provider("a"), fallback={"provider": "b", "conditions": ["timeout"]}),
        "acme",
        "default",
    ).policy
    assert decide(policy, a_request(status="timeout"), previous=PreviousAttempt("a", 1)) == (
        "b",
        "fallback",
        25,
    )


def test_a_list_of_statuses_as_condition() -> None:
    document = a_document(fallbacks=[a_rule("b", ["timeout", "5xx"])])
    assert parse_policy(document, "acme", "default").policy.fallbacks[0].when == {
        "status": ["timeout", "5xx"]
    }
    assert _warned(document) == ["fallbacks[0].when"]


@pytest.mark.parametrize(
    "sticky",
    [
        {"key": "user", "ttl_seconds": 60},
        {"key": "user", "ttl_sec": 60},
        {"session_key": "user", "ttl": "1m"},
    ],
)
def test_sticky_by_its_older_names(sticky: dict[str, object]) -> None:
    assert (
        a_policy(sticky=sticky).sticky
        == a_policy(sticky={"session_key": "user", "ttl": "60s"}).sticky
    )


@pytest.mark.parametrize(
    ("sticky", "older"),
    [
        ({"session_key": "user", "ttl": "10m", "ttl_seconds": 600}, ["sticky.ttl_seconds"]),
        (
            {"session_key": "user", "ttl": "1h", "ttl_sec": 3600, "ttl_seconds": 3600},
            ["sticky.ttl_seconds", "sticky.ttl_sec"],
        ),
        ({"session_key": "user", "key": "user", "ttl": "10m"}, ["sticky.key"]),
    ],
)
def test_sticky_by_both_names_that_say_the_same(
    sticky: dict[str, object], older: list[str]
) -> None:
    assert _warned(a_document(sticky=sticky)) == older
    assert (
        a_policy(sticky=sticky).sticky
        == a_policy(sticky={"session_key": "user", "ttl": sticky["ttl"]}).sticky
    )


def test_a_document_that_mixes_the_forms_is_read() -> None:
    """Providers and rules in the new form; one fallback and a ttl in the old one as well."""
    mixed = a_document(
        a_provider("openai", 60),
        a_provider("anthropic", 40),
        fallbacks=[{"when": {"status": ["timeout"]}, "retry": 2, "to": "anthropic"}],
        fallback={"provider": "local_llm", "conditions": ["all_providers_failed"]},
        sticky={"enabled": True, "session_key": "user_id", "ttl": "10m", "ttl_seconds": 600},
        pre=[{"id": "normalize_text", "mode": "required", "config": {"lowercase": True}}],
        metadata={"strategy": "mixed_format"},
    )
    parsed = parse_policy(mixed, "acme", "default")
    assert (parsed.policy.sticky, [rule.to for rule in parsed.policy.fallbacks]) == (
        StickySessions("user_id", 600),
        ["anthropic", "local_llm"],
    )
    assert [finding.path for finding in parsed.warnings] == ["fallback", "sticky.ttl_seconds"]


def test_nested_extensions() -> None:
    document = a_document(
        extensions={"pre": [{"id": "a"}], "validators": [{"id": "b"}], "post": [{"id": "c"}]}
    )
    pipeline = parse_policy(document, "acme", "default").policy.pipeline
    assert [use.id for use in pipeline.pre + pipeline.validators + pipeline.post] == ["a", "b", "c"]
    assert _warned(document) == ["extensions"]


@pytest.mark.parametrize(
    "older",
    [
        {"extensions": {"pre": [], "other": []}},
        {"extensions": {"pre": []}, "pre": []},
        {"fallback": {"provider": "a", "surprise": 1}},
        {"fallback": 7},
        {"sticky": {"key": "a", "session_key": "b"}},
        {"sticky": {"ttl_seconds": "60"}},
        {"sticky": {"ttl": "10m", "ttl_seconds": 60}},
        {"sticky": {"ttl": "10 minutes", "ttl_seconds": 600}},
    ],
)
def test_a_mixture_of_forms_that_cannot_be_told_apart_is_an_error(older: dict[str, object]) -> None:
    assert errors_of(a_document(**older))


def test_the_document_that_was_given_is_left_as_it_is() -> None:
    document = {"providers": ["a"], "sticky": {"key": "user"}, "fallback": "b"}
    parse_policy(document, "acme", "default")
    assert document == {"providers": ["a"], "sticky": {"key": "user"}, "fallback": "b"}
