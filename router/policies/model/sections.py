"""Each object of a policy document: its keys, bounds and defaults, one reader for each.

The tables are in docs/reference/policies.md#document. Where it leaves a bound open, the bound here
is generous and still a number that every reader of an answer can hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import orjson

from router.core import ids
from router.policies.model.conditions import Condition, compile_condition
from router.policies.model.fields import Fields
from router.policies.model.policy import (
    CHEAPEST,
    REASONS_BY_STRATEGY,
    WEIGHTED,
    BreakerConfig,
    ExtensionUse,
    Fallback,
    Pipeline,
    Provider,
    RateLimit,
    RoutingStrategy,
    StickySessions,
)

NAME = re.compile(ids.PROVIDER_PATTERN)
MODEL = re.compile(ids.OPAQUE_PATTERN)
TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}")
DURATION = re.compile(r"[0-9]{1,18}[smh]")
SESSION_KEY = re.compile(r".{1,256}")
SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600}
YEAR_S = 365 * 86_400
MOST_FIGURE = 1e9
MOST_PROVIDERS, MOST_FALLBACKS, MOST_USES = 500, 100, 32
_USES = ("pre", "validators", "post")
MAX_COUNTS = {
    "providers": MOST_PROVIDERS,
    "weights": MOST_PROVIDERS,
    "fallbacks": MOST_FALLBACKS,
    **dict.fromkeys(_USES, MOST_USES),
}
MOST_CONDITIONS = 256  # of all rules and extensions: a request may have to look at each
MOST_PAUSES = 10  # of a rule's backoff: it has at most ten retries
HIGH = "high"
LARGEST_CONFIG = 64 * 1024  # bytes: each call carries it
LARGEST_PARAMETERS = 4 * 1024  # bytes: each decision for the provider carries them


def read_providers(fields: Fields) -> tuple[Provider, ...]:
    """At least one, each name once."""
    entries = fields.children("providers")
    if not entries:
        fields.refuse("providers", "at least one is required")
    providers = [(entry, _provider(entry)) for entry in entries]
    names: set[str] = set()
    for entry, provider in providers:
        if provider.name and provider.name in names:
            entry.refuse("name", f'"{provider.name}" is taken by another provider')
        names.add(provider.name)
    return tuple(provider for _, provider in providers)


def _provider(fields: Fields) -> Provider:
    fields.require("name", "weight")
    provider = Provider(
        name=fields.text("name", NAME, ""),
        weight=fields.number("weight", 0, 100, 1),
        priority=fields.integer("priority", 0, 100, 50),
        expected_latency_ms=fields.number("expected_latency_ms", 0, MOST_FIGURE, None),
        expected_cost=fields.number("expected_cost", 0, MOST_FIGURE, None),
        enabled=fields.flag("enabled", True),
        model=fields.text("model", MODEL, "") or None,
        parameters=_parameters(fields),
    )
    fields.close("a provider")
    return provider


def _parameters(fields: Fields) -> str | None:
    """As text: so they stand in a decision's metadata. Absent and `{}` are the same."""
    parameters, data = _object(fields, "parameters", LARGEST_PARAMETERS)
    return data.decode() if parameters else None


def read_fallbacks(fields: Fields) -> tuple[Fallback, ...]:
    return tuple(_fallback(entry) for entry in fields.children("fallbacks"))


def _fallback(fields: Fields) -> Fallback:
    fields.require("when", "to")
    when, applies = _condition(fields)
    rule = Fallback(
        fields.text("to", NAME, ""),
        when,
        applies,
        fields.integer("retry", 0, 10, 1),
        _backoff(fields),
    )
    fields.close("a fallback")
    return rule


def _condition(fields: Fields) -> tuple[Mapping[str, object], Condition]:
    when = fields.free("when")
    return when, compile_condition(when, fields.path_of("when"), fields.problems)


def _backoff(fields: Fields) -> tuple[int, ...]:
    value = fields.take("backoff")
    steps = value if isinstance(value, list) else [] if value is None else [value]
    if len(steps) <= MOST_PAUSES and all(
        type(step) is int and 0 <= step <= 300_000 for step in steps
    ):
        return tuple(steps)
    fields.refuse(
        "backoff",
        f"is neither milliseconds within 0..300000 nor a list of at most {MOST_PAUSES} of them",
    )
    return ()


def read_sticky(parent: Fields) -> StickySessions | None:
    fields = parent.child("sticky")
    if fields is None:
        return None
    enabled = fields.flag("enabled", True)
    session_key, ttl = (
        fields.text("session_key", SESSION_KEY, "session_id"),
        fields.text("ttl", DURATION, "10m"),
    )
    ttl_s = int(ttl[:-1]) * SECONDS_PER_UNIT[ttl[-1]]
    if not 1 <= ttl_s <= YEAR_S:
        fields.refuse("ttl", f'"{ttl[:40]}" is not within 1s..8760h')
    fields.close("sticky")
    return StickySessions(session_key, ttl_s) if enabled else None


def read_breaker(parent: Fields) -> BreakerConfig | None:
    fields = parent.child("circuit_breaker")
    if fields is None:
        return None
    enabled = fields.flag("enabled", True)
    breaker = BreakerConfig(
        failure_threshold=fields.integer("failure_threshold", 1, 100, 5),
        success_threshold=fields.integer("success_threshold", 1, 10, 2),
        timeout_ms=fields.integer("timeout_ms", 1_000, 300_000, 60_000),
        half_open_max_calls=fields.integer("half_open_max_calls", 1, 100, 3),
        error_rate_threshold=fields.number("error_rate_threshold", 0, 1, 0.5),
        error_rate_window_seconds=fields.integer("error_rate_window_seconds", 1, 3_600, 60),
        minimum_calls=fields.integer("minimum_calls", 1, 1_000_000, 10),
        latency_threshold_ms=fields.number("latency_threshold_ms", 0, MOST_FIGURE, None),
    )
    fields.close("circuit_breaker")
    return breaker if enabled else None


def read_strategy(parent: Fields) -> RoutingStrategy | None:
    """None: by weight."""
    fields = parent.child("strategy")
    if fields is None:
        return None
    fields.require("type")
    type_ = fields.choice("type", tuple(REASONS_BY_STRATEGY), WEIGHTED)
    explore, within = fields.number("explore", 0, 1, None), fields.child("within")
    if type_ == WEIGHTED and explore is not None:
        others = (name for name in REASONS_BY_STRATEGY if name != WEIGHTED)
        fields.refuse("explore", f"is a key of {' and '.join(others)}")
    if type_ != CHEAPEST and within is not None:
        fields.refuse("within", f"is a key of {CHEAPEST}")
    p95_latency_ms, success_rate = _objectives(within) if within is not None else (None, None)
    fields.close("strategy")
    return (
        RoutingStrategy(type_, 0.01 if explore is None else explore, p95_latency_ms, success_rate)
        if type_ != WEIGHTED
        else None
    )


def _objectives(fields: Fields) -> tuple[float | None, float | None]:
    limits = (
        fields.number("p95_latency_ms", 1, MOST_FIGURE, None),
        fields.number("success_rate", 0.01, 1, None),
    )
    fields.close("within")
    return limits


def read_is_high(fields: Fields) -> bool:
    return fields.choice("priority", ("normal", HIGH), "normal") == HIGH


def read_rate_limit(parent: Fields) -> RateLimit | None:
    fields = parent.child("rate_limit")
    if fields is None:
        return None
    enabled = fields.flag("enabled", True)
    fields.require("requests_per_second", "burst")
    limit = RateLimit(
        fields.number("requests_per_second", 1, 1_000_000, 1),
        fields.integer("burst", 1, 1_000_000, 1),
    )
    fields.close("rate_limit")
    return limit if enabled else None


def read_pipeline(fields: Fields) -> Pipeline:
    return Pipeline(
        pre=tuple(
            _extension(entry, "mode", ("required", "optional"), "optional")
            for entry in fields.children("pre")
        ),
        validators=tuple(
            _extension(entry, "on_fail", ("block", "warn", "ignore"), "block")
            for entry in fields.children("validators")
        ),
        post=tuple(
            _extension(entry, "mode", ("required", "optional"), "optional")
            for entry in fields.children("post")
        ),
        parallel=fields.flag("parallel", False),
    )


def _extension(fields: Fields, mode_key: str, modes: tuple[str, ...], default: str) -> ExtensionUse:
    fields.require("id")
    when, applies = _condition(fields)
    use = ExtensionUse(
        id=fields.text("id", TOKEN, ""),
        mode=fields.choice(mode_key, modes, default),
        config=_config(fields),
        when=when,
        applies=applies,
        timeout_ms=fields.integer("timeout_ms", 10, 60_000, None),
        retry=fields.integer("retry", 0, 3, None),
    )
    fields.close("an extension")
    return use


def _config(fields: Fields) -> Mapping[str, object]:
    return _object(fields, "config", LARGEST_CONFIG)[0]


def _object(fields: Fields, key: str, most: int) -> tuple[Mapping[str, object], bytes]:
    """A free object and its JSON, which may have so many bytes."""
    value = fields.free(key)
    try:
        data = orjson.dumps(value)
    except TypeError:
        fields.refuse(key, "holds what JSON cannot, or an integer of more than 64 bits")
        return {}, b"{}"
    if len(data) > most:
        fields.refuse(key, f"is larger than {most} bytes")
    return value, data
