"""Remarks on legal policies that look wrong. An error is a policy that refuses every request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from router.policies.model.conditions import OPERATORS, STATUS_CLASS, kind_of
from router.policies.model.parse import RECOMMENDED, RECOMMENDED_OF_A_KIND, count_by_kind
from router.policies.model.policy import Policy, PolicyFinding

_Remark = tuple[str, str]  # path, message
_SAID_ELSEWHERE: Mapping[str, str] = {
    "model": "`model` beside `parameters` says which one, so this is overwritten",
    "stream": "each request says whether its answer is streamed, so this is overwritten",
}


def lint(policy: Policy) -> list[PolicyFinding]:
    """Findings in the order of the document; empty: no remark."""
    findings = [PolicyFinding(path, "warning", message) for path, message in _warnings(policy)]
    if policy.refusal is not None:
        findings.append(PolicyFinding("pipeline", "error", policy.refusal.message))
    return findings


def _warnings(policy: Policy) -> Iterator[_Remark]:
    yield from _idle_providers(policy)
    yield from _unknown_targets(policy)
    yield from _idle_parameters(policy)
    yield from _big_pipeline(policy)
    for index, rule in enumerate(policy.fallbacks):
        yield from _odd_conditions(rule.when, f"fallbacks[{index}].when")
    for kind_, uses in (
        ("pre", policy.pipeline.pre),
        ("validators", policy.pipeline.validators),
        ("post", policy.pipeline.post),
    ):
        for index, use in enumerate(uses):
            yield from _odd_conditions(use.when, f"{kind_}[{index}].when")


def _idle_providers(policy: Policy) -> Iterator[_Remark]:
    targets = {rule.to for rule in policy.fallbacks}
    for index, provider in enumerate(policy.providers):
        if not provider.enabled:
            yield f"providers[{index}]", f"{provider.name} can never win: it is not enabled"
        elif provider.weight == 0 and provider.name not in targets:
            yield (
                f"providers[{index}]",
                f"{provider.name} can never win: its weight is 0 and no fallback names it",
            )


def _unknown_targets(policy: Policy) -> Iterator[_Remark]:
    for index, rule in enumerate(policy.fallbacks):
        target = policy.plan.providers.get(rule.to)
        if target is None:
            yield f"fallbacks[{index}].to", f"{rule.to} is not among the providers"
        elif not target.enabled:
            yield f"fallbacks[{index}].to", f"{rule.to} is not enabled, so this rule never helps"


def _idle_parameters(policy: Policy) -> Iterator[_Remark]:
    for index, provider in enumerate(policy.providers):
        parameters = orjson.loads(provider.parameters or "{}")
        for name, why in _SAID_ELSEWHERE.items():
            if name in parameters:
                yield f"providers[{index}].parameters.{name}", why


def _big_pipeline(policy: Policy) -> Iterator[_Remark]:
    by_kind = count_by_kind(policy.pipeline)
    if sum(by_kind.values()) > RECOMMENDED:
        yield (
            "pipeline",
            f"{sum(by_kind.values())} extensions; at most {RECOMMENDED} are recommended",
        )
    for name, count in by_kind.items():
        if count > RECOMMENDED_OF_A_KIND:
            yield (
                name,
                f"{count} extensions; at most {RECOMMENDED_OF_A_KIND} of a kind are recommended",
            )


def _odd_conditions(when: Mapping[str, object], path: str) -> Iterator[_Remark]:
    for name, value in when.items():
        message = _explain_never(name, value)
        if message is not None:
            yield f"{path}.{name}", f"{message}, so this is never true"


def _explain_never(name: str, value: object) -> str | None:
    if name not in OPERATORS:
        return "there is nothing to be equal to" if value in (None, []) else None
    sides: list[object] = value if isinstance(value, list) else []
    kinds = [None if isinstance(side, Mapping) else _kind(side) for side in sides]
    return _explain_membership(kinds) if name == "in" else _explain_comparison(name, sides, kinds)


def _explain_comparison(name: str, sides: list[object], kinds: list[str | None]) -> str | None:
    named_kinds = [kind_ for kind_ in kinds if kind_ is not None]
    if "null" in named_kinds:
        return "null is compared with nothing"
    if name not in ("==", "!=") and not {"number", "text"}.issuperset(named_kinds):
        return f"{', '.join(named_kinds)} has no order"
    is_class = (
        name in ("==", "!=") and isinstance(sides[1], str) and STATUS_CLASS.fullmatch(sides[1])
    )
    if len(set(named_kinds)) > 1 and not is_class:
        return f"{named_kinds[0]} and {named_kinds[1]} do not compare"
    return None


def _explain_membership(kinds: list[str | None]) -> str | None:
    left, right = kinds
    if "null" in kinds:
        return "null is compared with nothing"
    if right not in (None, "list", "text"):
        return f"nothing is in a {right}"
    return f"{left} is not in a text" if right == "text" and left not in (None, "text") else None


def _kind(side: object) -> str:
    return kind_of(side) or "null"
