"""The document's table: every key, bound and default, and how a mistake is named."""

from collections.abc import Callable

import orjson
import pytest

from router.policies.model import PolicyError, load_policy, parse_policy
from router.policies.model.policy import BreakerConfig, Provider, RateLimit, StickySessions
from tests.support.policy import a_document, a_policy, a_provider, a_rule, errors_of

EXAMPLE = {
    "version": "1.0",
    "providers": [
        {"name": "openai", "weight": 70, "expected_latency_ms": 800, "expected_cost": 0.012},
        {"name": "anthropic", "weight": 30},
    ],
    "pre": [{"id": "normalize_text", "mode": "required", "config": {"lowercase": True}}],
    "validators": [{"id": "pii_guard", "on_fail": "block"}],
    "post": [{"id": "mask_pii", "mode": "optional"}],
    "circuit_breaker": {"enabled": True, "failure_threshold": 5, "timeout_ms": 30000},
    "fallbacks": [
        {
            "when": {"status": ["circuit_breaker_open", "timeout", "5xx"]},
            "retry": 2,
            "to": "anthropic",
        }
    ],
    "sticky": {"enabled": True, "session_key": "user_id", "ttl": "10m"},
    "rate_limit": {"enabled": True, "requests_per_second": 100, "burst": 50},
}


def test_the_references_example_is_read_without_a_warning() -> None:
    parsed = parse_policy(EXAMPLE, "acme", "default")
    policy = parsed.policy
    assert parsed.warnings == ()
    assert policy.providers[0] == Provider("openai", 70, 50, 800, 0.012, True)
    assert policy.sticky == StickySessions("user_id", 600)
    assert policy.circuit_breaker == BreakerConfig(failure_threshold=5, timeout_ms=30_000)
    assert policy.rate_limit == RateLimit(100, 50)
    assert [
        (use.id, use.mode)
        for use in policy.pipeline.pre + policy.pipeline.validators + policy.pipeline.post
    ] == [("normalize_text", "required"), ("pii_guard", "block"), ("mask_pii", "optional")]


def test_what_is_left_out_gets_the_tables_defaults() -> None:
    policy = a_policy(
        circuit_breaker={},
        sticky={},
        fallbacks=[{"when": {}, "to": "only"}],
        pre=[{"id": "p"}],
        validators=[{"id": "v"}],
    )
    assert policy.providers == (Provider("only", 100, 50, None, None, True),)
    assert policy.circuit_breaker == BreakerConfig(5, 2, 60_000, 3, 0.5, 60, 10, None)
    assert policy.sticky == StickySessions("session_id", 600)
    assert policy.fallbacks[0].retry == 1
    assert (policy.pipeline.pre[0].mode, policy.pipeline.validators[0].mode) == (
        "optional",
        "block",
    )
    assert (policy.rate_limit, policy.timeout_ms) == (None, None)


def test_an_object_that_is_switched_off_is_as_good_as_absent() -> None:
    off = {"enabled": False}
    policy = a_policy(
        sticky=off, circuit_breaker=off, rate_limit={**off, "requests_per_second": 1, "burst": 1}
    )
    assert (policy.sticky, policy.circuit_breaker, policy.rate_limit) == (None, None, None)


@pytest.mark.parametrize(
    ("ttl", "seconds"), [("45s", 45), ("10m", 600), ("2h", 7200), ("0008s", 8)]
)
def test_a_ttl_is_digits_and_a_unit(ttl: str, seconds: int) -> None:
    policy = a_policy(sticky={"ttl": ttl})
    assert policy.sticky is not None
    assert policy.sticky.ttl_s == seconds


def _breaker(**fields: object) -> dict[str, object]:
    return a_document(circuit_breaker=fields)


def _one(**fields: object) -> dict[str, object]:
    return a_document(a_provider("a") | fields)


def _rule(**fields: object) -> dict[str, object]:
    return a_document(fallbacks=[a_rule("only", {}) | fields])


def _strategy(**fields: object) -> dict[str, object]:
    return a_document(strategy={"type": "cheapest", **fields})


def _rate(rate: object, burst: object) -> dict[str, object]:
    return a_document(rate_limit={"requests_per_second": rate, "burst": burst})


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (_one(weight=100.5), "providers[0].weight"),
        (_one(weight=True), "providers[0].weight"),
        (_one(weight=float("nan")), "providers[0].weight"),
        (_one(priority=1.5), "providers[0].priority"),
        (_one(expected_cost=float("inf")), "providers[0].expected_cost"),
        (_one(enabled=1), "providers[0].enabled"),
        (_one(name="a b"), "providers[0].name"),
        (_one(name=None), "providers[0].name"),
        (_one(weight=None), "providers[0].weight"),
        (_rule(backoff="soon"), "fallbacks[0].backoff"),
        (_rule(to=None), "fallbacks[0].to"),
        (_rule(when=None), "fallbacks[0].when"),
        (a_document(priority="urgent"), "priority"),
        (a_document(priority=1), "priority"),
        (_rate(None, 1), "rate_limit.requests_per_second"),
        (a_document(sticky={"ttl": "10 m"}), "sticky.ttl"),
        (a_document(sticky={"ttl": "0s"}), "sticky.ttl"),
        (a_document(sticky={"ttl": "9" * 5000 + "h"}), "sticky.ttl"),
        (a_document(pre=[{"id": "a.b"}]), "pre[0].id"),
        (a_document(pre=[{"id": "a", "mode": "block"}]), "pre[0].mode"),
        (a_document(validators=[{"id": "a", "on_fail": "explode"}]), "validators[0].on_fail"),
        (a_document(validators=[{"id": "a", "config": []}]), "validators[0].config"),
        (a_document(parallel="yes"), "parallel"),
        (a_document(metadata=[]), "metadata"),
        (a_document(version="2.0"), "version"),
        (a_document(tenant_id="other"), "tenant_id"),
        (a_document(policy_id="other"), "policy_id"),
        (a_document(surprise=1), "surprise"),
        (a_document(sticky={"surprise": 1}), "sticky.surprise"),
        (_one(surprise=1), "providers[0].surprise"),
        (_one(model=""), "providers[0].model"),
        (_one(model="a b"), "providers[0].model"),
        (_one(model="x" * 129), "providers[0].model"),
        (_one(model="é"), "providers[0].model"),
        (_one(model=["a"]), "providers[0].model"),
        (_one(parameters="{}"), "providers[0].parameters"),
        (_one(parameters=[]), "providers[0].parameters"),
        (_one(parameters={"of": 2**70}), "providers[0].parameters"),
        (_one(parameters={"of": "x" * 4096}), "providers[0].parameters"),
        (a_document(pre=[{"id": "a", "surprise": 1}]), "pre[0].surprise"),
        (a_document(pre={"id": "a"}), "pre"),
        (a_document(fallbacks=["a"]), "fallbacks[0]"),
        (a_document(a_provider("a"), a_provider("a")), "providers[1].name"),
        (a_document(a_provider("a", 0), a_provider("b", 0)), "providers"),
        ({"version": "1.0"}, "providers"),
        ({"version": "1.0", "providers": []}, "providers"),
        ([], "policy"),
        (None, "policy"),
    ],
)
def test_a_mistake_is_named_by_its_path(document: object, path: str) -> None:
    assert path in [where for where, _ in errors_of(document)]


NUMBERS: dict[str, tuple[Callable[[float], object], float, float]] = {
    "providers[0].weight": (lambda n: _one(weight=n), 0, 100),
    "providers[0].priority": (lambda n: _one(priority=n), 0, 100),
    "providers[0].expected_latency_ms": (lambda n: _one(expected_latency_ms=n), 0, 1e9),
    "providers[0].expected_cost": (lambda n: _one(expected_cost=n), 0, 1e9),
    "fallbacks[0].retry": (lambda n: _rule(retry=n), 0, 10),
    "fallbacks[0].backoff": (lambda n: _rule(backoff=[1, n]), 0, 300_000),
    "timeout_ms": (lambda n: a_document(timeout_ms=n), 1, 300_000),
    "pre[0].timeout_ms": (lambda n: a_document(pre=[{"id": "a", "timeout_ms": n}]), 10, 60_000),
    "post[0].retry": (lambda n: a_document(post=[{"id": "a", "retry": n}]), 0, 3),
    "rate_limit.requests_per_second": (lambda n: _rate(n, 1), 1, 1_000_000),
    "rate_limit.burst": (lambda n: _rate(1, n), 1, 1_000_000),
    "sticky.ttl": (lambda n: a_document(sticky={"ttl": f"{n}s"}), 1, 365 * 86_400),
    "strategy.explore": (lambda n: _strategy(explore=n), 0, 1),
    "strategy.within.p95_latency_ms": (lambda n: _strategy(within={"p95_latency_ms": n}), 1, 1e9),
    "strategy.within.success_rate": (lambda n: _strategy(within={"success_rate": n}), 0.01, 1),
    "circuit_breaker.failure_threshold": (lambda n: _breaker(failure_threshold=n), 1, 100),
    "circuit_breaker.success_threshold": (lambda n: _breaker(success_threshold=n), 1, 10),
    "circuit_breaker.timeout_ms": (lambda n: _breaker(timeout_ms=n), 1_000, 300_000),
    "circuit_breaker.half_open_max_calls": (lambda n: _breaker(half_open_max_calls=n), 1, 100),
    "circuit_breaker.error_rate_threshold": (lambda n: _breaker(error_rate_threshold=n), 0, 1),
    "circuit_breaker.error_rate_window_seconds": (
        lambda n: _breaker(error_rate_window_seconds=n),
        1,
        3_600,
    ),
    "circuit_breaker.minimum_calls": (lambda n: _breaker(minimum_calls=n), 1, 1_000_000),
    "circuit_breaker.latency_threshold_ms": (lambda n: _breaker(latency_threshold_ms=n), 0, 1e9),
}


@pytest.mark.parametrize("path", NUMBERS)
def test_a_number_is_legal_from_bound_to_bound_and_not_beyond(path: str) -> None:
    make, least, most = NUMBERS[path]
    assert [path in dict(errors_of(make(number))) for number in (least, most)] == [False, False]
    beyond = (least - 1 if least != 0.01 else 0.009, most + 1)
    assert [path in dict(errors_of(make(number))) for number in beyond] == [True, True]


def test_a_document_that_is_stored_nowhere_is_version_1() -> None:
    assert parse_policy(a_document(), "acme", "default").policy.version == 1


def test_the_message_says_the_value_and_what_is_legal() -> None:
    with pytest.raises(PolicyError, match=r"^providers\[1\]\.weight: 140 is not within 0\.\.100$"):
        parse_policy(a_document(a_provider("a"), a_provider("b", 140)), "acme", "default")


def test_all_mistakes_are_told_at_once() -> None:
    document = a_document(a_provider("a", 140, priority=-1), surprise=1, sticky={"ttl": "soon"})
    assert [path for path, _ in errors_of(document)] == [
        "providers[0].weight",
        "providers[0].priority",
        "sticky.ttl",
        "surprise",
    ]


def test_of_more_than_twenty_mistakes_the_others_are_counted() -> None:
    for mistakes, last in ((20, "providers[19].weight"), (22, "…")):
        found = errors_of(a_document(*(a_provider(f"p{n}", 140) for n in range(mistakes))))
        assert (len(found), found[-1][0]) == (min(mistakes, 21), last)
    assert found[-1][1] == "2 more problems"


def test_null_means_absent() -> None:
    assert errors_of(a_document(sticky=None, rate_limit=None, surprise=None)) == []


def test_all_weights_zero_is_legal_beside_a_fallback() -> None:
    assert errors_of(a_document(a_provider("a", 0), fallbacks=[a_rule("a", {})])) == []


@pytest.mark.parametrize(
    ("tenant", "policy_id"),
    [
        ("..", "default"),
        ("_private", "default"),
        ("acme", "_x"),
        ("acme", "*"),
        ("a/b", "c"),
        ("", ""),
    ],
)
def test_a_policy_is_not_stored_under_what_is_no_id(tenant: str, policy_id: str) -> None:
    assert errors_of(a_document(), tenant, policy_id)


def test_the_shared_tenant_is_one() -> None:
    assert (
        parse_policy(a_document(tenant_id="_shared"), "_shared", "default").policy.tenant_id
        == "_shared"
    )


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"version": "1.0"', b"\xff", b"[" * 60, b'{"providers": [NaN]}']
)
def test_bytes_that_are_no_json_are_a_policy_error(data: bytes) -> None:
    with pytest.raises(PolicyError, match="is not JSON"):
        load_policy(data, "acme", "default")


def test_what_a_provider_is_asked_with_is_text_as_it_will_stand_in_a_decision() -> None:
    parameters = {"temperature": 0.2, "stop": ["é"], "nested": {"of": None}}
    policy = a_policy(a_provider("a", model="m-1", parameters=parameters), a_provider("b"))
    assert policy.providers[0].model == "m-1"
    assert orjson.loads(policy.providers[0].parameters or "") == parameters
    assert (policy.providers[1].model, policy.providers[1].parameters) == (None, None)


def test_parameters_have_four_kibibytes_at_most() -> None:
    fits = {"of": "x" * (4096 - len('{"of":""}'))}
    assert errors_of(_one(parameters=fits)) == []
    assert errors_of(_one(parameters={"of": fits["of"] + "x"})) == [
        ("providers[0].parameters", "is larger than 4096 bytes")
    ]
