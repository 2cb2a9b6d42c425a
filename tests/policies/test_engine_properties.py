"""What holds for every policy and every request."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.policies.model import (
    NO_STATES,
    Averages,
    AverageStates,
    Policy,
    PolicyError,
    PreviousAttempt,
    ProviderState,
    ProviderTracker,
    RemoteTransition,
    evaluate,
    lint,
    parse_policy,
)
from router.policies.model.measurements import LearnedFigures, TenantFigures
from tests.support.breakers import SomeProviders, a_guarded_policy

NAMES = ("a", "b", "c", "d")
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.sampled_from(["timeout", "5xx", "503", 503]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["timeout", "5xx", 503])
)
paths = st.sampled_from(
    [
        "status",
        "context.n",
        "context.user.tier",
        "message.payload.x",
        "constraints.max_cost",
        "metadata.m",
        "n",
    ]
)
operands = scalars | st.lists(scalars, max_size=3) | paths.map(lambda path: {"var": path})
operations = st.dictionaries(
    st.sampled_from(["==", "!=", ">", "<", ">=", "<=", "in"]),
    st.lists(operands, min_size=2, max_size=2),
    max_size=2,
)
conditions = operations | st.dictionaries(
    paths, scalars | st.lists(scalars, max_size=3), max_size=2
)
figures = st.none() | st.floats(0, 1000)
providers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(NAMES), "weight": st.integers(0, 100) | st.floats(0, 100)},
        optional={
            "priority": st.integers(0, 3),
            "enabled": st.booleans(),
            "expected_cost": figures,
            "expected_latency_ms": figures,
        },
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda provider: provider["name"],
)
rules = st.lists(
    st.fixed_dictionaries(
        {"when": conditions, "to": st.sampled_from([*NAMES, "x"]), "retry": st.integers(0, 2)}
    ),
    max_size=3,
)
within = st.fixed_dictionaries(
    {}, optional={"p95_latency_ms": st.floats(1, 1000), "success_rate": st.floats(0.1, 1)}
)
strategies = (
    st.none()
    | st.fixed_dictionaries(
        {"type": st.just("least_latency")}, optional={"explore": st.floats(0, 1)}
    )
    | st.fixed_dictionaries(
        {"type": st.just("cheapest")}, optional={"explore": st.floats(0, 1), "within": within}
    )
)
policies = st.builds(
    lambda listed, fallbacks, sticky, strategy: _policy(
        {
            "version": "1.0",
            "providers": listed,
            "fallbacks": fallbacks,
            "sticky": sticky,
            "strategy": strategy,
        }
    ),
    providers,
    rules,
    st.none() | st.just({"session_key": "user"}),
    strategies,
).filter(lambda policy: policy is not None)
contexts = st.dictionaries(
    st.sampled_from(["status", "user", "n"]) | st.text(max_size=4), json_values, max_size=4
)
requests = st.builds(
    RouteRequest,
    tenant_id=st.just("acme"),
    message_type=st.just("chat"),
    payload=json_values | st.binary(max_size=4),
    request_key=st.text(min_size=1, max_size=20),
    answer_id=st.just("r"),
    context=contexts,
    constraints=st.dictionaries(
        st.sampled_from(["max_cost", "max_latency_ms", "other"]), json_values, max_size=2
    )
    | st.dictionaries(
        st.sampled_from(["providers", "excluded_providers"]),
        json_values | st.lists(st.sampled_from([*NAMES, "x"]), min_size=1, max_size=4),
    ),
    metadata=st.just({"m": 1}),
    push_assignment=st.booleans(),
)
states = st.dictionaries(
    st.sampled_from([*NAMES, "x"]),
    st.builds(
        ProviderState, st.sampled_from([0.0, 9.0]), figures, figures, st.sampled_from([0.0, 8.0])
    ),
    max_size=3,
)
shares = st.none() | st.floats(0, 1)
learned = st.dictionaries(
    st.sampled_from([*NAMES, "x"]),
    st.builds(
        LearnedFigures,
        *(
            st.integers(0, 9),
            st.integers(0, 9),
            figures,
            st.floats(0, 1),
            figures,
            figures,
            figures,
            figures,
            shares,
        ),
        is_failing=st.booleans(),
        probe_share=st.sampled_from([0.0, 0.25, 1.0]),
    ),
    max_size=4,
)
names = st.none() | st.sampled_from([*NAMES, "gone"])


def _policy(document: dict[str, object]) -> Policy | None:
    try:
        return parse_policy(document, "acme", "default").policy
    except PolicyError:
        return None


@settings(max_examples=120, deadline=None)
@given(
    policies,
    requests,
    st.just(NO_STATES) | states,
    names,
    st.none() | st.builds(PreviousAttempt, st.sampled_from(NAMES), st.integers(1, 3)),
)
def test_evaluate_answers_every_request(policy, request, known, remembered, previous) -> None:
    answer = evaluate(
        policy, request, states=known, now=1.0, remembered=remembered, previous=previous
    )
    assert isinstance(answer, Decision | Refusal)


@settings(max_examples=120, deadline=None)
@given(policies, requests, learned, names)
def test_the_plan_and_the_selection_give_the_same_answer(
    policy, request, known, remembered
) -> None:
    kept = TenantFigures()
    for name, one in known.items():
        kept.put(name, one)
    slow = evaluate(
        policy, request, states={}, figures=known, now=1.0, remembered=remembered, trace=[]
    )
    for _ in range(2):  # made, then kept
        assert evaluate(policy, request, figures=kept, now=1.0, remembered=remembered) == slow


@settings(max_examples=200, deadline=None)
@given(policies, requests, states, names)
def test_the_plan_with_averages_and_the_selection_give_the_same_answer(
    policy, request, known, remembered
) -> None:
    request = _simplify(request)
    averages = AverageStates(
        {
            name: replace(state, blocked_until=0.0, limited_until=0.0)
            for name, state in known.items()
        }
    )
    for _ in range(2):  # made, then kept
        fast = evaluate(policy, request, states=averages, now=1.0, remembered=remembered)
        assert fast == evaluate(
            policy, request, states=dict(averages), now=1.0, remembered=remembered
        )


def _simplify(request: RouteRequest) -> RouteRequest:
    """The same request as far as the plan may answer it."""
    return replace(
        request,
        constraints={},
        context={name: value for name, value in request.context.items() if name != "status"},
    )


REPORT = {
    "latency_ms": 7,
    "cost": 0.5,
    "error_code": "5XX",
    "retry_after_ms": None,
    "assignment_id": "a",
    "listed_cost": 0.5,
}
REPORTS = (
    "success",
    "error",
    "cancelled",
    "limited",
    "opened for 8",
    "opened for 2",
    "closed elsewhere",
)
events_of_breakers = st.tuples(
    st.sampled_from(["openai", "anthropic", "other"]),
    st.sampled_from([*REPORTS, "time passes", "a decision"]),
)


@settings(max_examples=100, deadline=None)
@given(
    requests,
    names | st.sampled_from(["openai", "anthropic"]),
    st.lists(events_of_breakers, max_size=25),
)
def test_the_plan_behind_breakers_and_the_selection_give_the_same_answer(
    request, remembered, events
) -> None:
    request = _simplify(request)
    policy = a_guarded_policy(
        "openai",
        "anthropic",
        "other",
        failure_threshold=2,
        success_threshold=1,
        half_open_max_calls=1,
    )
    some = SomeProviders(policy)
    tracker = ProviderTracker(Averages(), some.breakers, some.limits)
    for provider, event in events:
        match event:
            case "success" | "error" | "cancelled":
                tracker.observe("acme", provider, **{**REPORT, "status": event})
            case "limited":
                tracker.observe(
                    "acme",
                    provider,
                    **{**REPORT, "status": "error", "error_code": "429", "retry_after_ms": 7000},
                )
            case "opened for 8" | "opened for 2":
                some.breakers.apply_remote(
                    {("acme", provider): RemoteTransition(some.clock() + float(event[-1]), 1)}
                )
            case "closed elsewhere":
                some.breakers.apply_remote({("acme", provider): RemoteTransition(None, 1)})
            case "time passes":
                some.clock.at += 3.0
            case _:
                if isinstance(
                    chosen := _evaluate(policy, request, tracker, some.clock(), remembered),
                    Decision,
                ):
                    tracker.on_decision("acme", chosen)
        fast = _evaluate(policy, request, tracker, some.clock(), remembered)
        assert fast == _evaluate(policy, request, tracker, some.clock(), remembered, trace=[])


def _evaluate(policy, request, tracker, now, remembered, **trace) -> Decision | Refusal:
    return evaluate(
        policy, request, states=tracker.states_of("acme"), now=now, remembered=remembered, **trace
    )


@settings(max_examples=100, deadline=None)
@given(policies, requests, states, names)
def test_a_decision_never_breaks_a_breaker_or_a_switch(policy, request, known, remembered) -> None:
    answer = evaluate(policy, request, states=known, now=1.0, remembered=remembered)
    if isinstance(answer, Decision):
        provider, state = (
            policy.plan.providers.get(answer.provider_id),
            known.get(answer.provider_id),
        )
        assert provider is None or provider.enabled
        assert state is None or max(state.blocked_until, state.limited_until) <= 1.0


@settings(max_examples=200, deadline=None)
@given(
    policies,
    requests,
    st.fixed_dictionaries(
        {"states": states, "figures": learned, "remembered": names},
        optional={
            "previous": st.builds(PreviousAttempt, st.sampled_from(NAMES), st.integers(1, 3))
        },
    ),
)
def test_a_decision_never_leaves_the_lists_of_the_request(policy, request, known) -> None:
    answer = evaluate(policy, request, now=1.0, **known)
    if isinstance(answer, Decision):
        asked = request.constraints.get("providers")
        excluded = request.constraints.get("excluded_providers")
        assert not isinstance(asked, list) or answer.provider_id in asked
        assert not isinstance(excluded, list) or answer.provider_id not in excluded


@settings(max_examples=200, deadline=None)
@given(policies, requests, learned)
def test_a_strategy_never_prefers_who_fails(policy, request, known) -> None:
    answer = evaluate(policy, _simplify(request), figures=known, now=1.0)
    if (
        policy.strategy is not None
        and isinstance(answer, Decision)
        and answer.reason not in ("probe", "fallback")
    ):
        is_failing = {
            one.name: one.name in known and known[one.name].is_failing for one in policy.providers
        }
        able = [one.name for one in policy.providers if one.enabled and one.weight > 0]
        assert not is_failing[answer.provider_id] or all(is_failing[name] for name in able)


@settings(max_examples=200, deadline=None)
@given(policies, requests, learned)
def test_only_who_fails_is_probed_and_only_by_a_request_that_is_pushed(
    policy, request, known
) -> None:
    answer = evaluate(policy, request, figures=known, now=1.0)
    if isinstance(answer, Decision) and answer.reason == "probe":
        assert request.push_assignment
        assert known[answer.provider_id].is_failing
        assert known[answer.provider_id].probe_share > 0


@settings(max_examples=100, deadline=None)
@given(policies)
def test_lint_reads_every_policy(policy) -> None:
    assert all(finding.severity in ("warning", "error") for finding in lint(policy))


@settings(max_examples=120, deadline=None)
@given(
    json_values
    | st.dictionaries(
        st.sampled_from(
            ["providers", "weights", "fallbacks", "fallback", "sticky", "extensions", "pre"]
        ),
        json_values,
    )
)
def test_whatever_is_no_policy_is_a_policy_error(document) -> None:
    _policy(document)
