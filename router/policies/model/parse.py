"""Read a document as a Policy, or raise a PolicyError that lists every mistake with its path. The
limits of a pipeline are checked with it.

    bytes -> load_policy -> document -> normalise -> parse_policy -> Policy

Sizes and counts are checked first: the largest legal document is read on the event loop within
milliseconds, a larger one is not read.

Which keys there are is said in `sections`; any other key is an error. The policy store counts
versions.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson
from msgspec import Struct

from router.contracts.canary import ARM
from router.contracts.codec import MAX_DEPTH, describe_mark, is_deeper
from router.contracts.decision import INVALID_REQUEST, Refusal
from router.core import ids
from router.policies.model.fields import Fields, PolicyError, Problems, quote
from router.policies.model.normalise import normalise
from router.policies.model.policy import (
    SHARED,
    WEIGHTED,
    Pipeline,
    Policy,
    PolicyFinding,
    make_plan,
)
from router.policies.model.sections import (
    MAX_COUNTS,
    MOST_CONDITIONS,
    read_breaker,
    read_fallbacks,
    read_is_high,
    read_pipeline,
    read_providers,
    read_rate_limit,
    read_sticky,
    read_strategy,
)

# -- The limits of a pipeline: at most 10 extensions and 5 of a kind; 4 and 2 are recommended.


MAX_EXTENSIONS, MAX_OF_A_KIND = 10, 5
RECOMMENDED, RECOMMENDED_OF_A_KIND = 4, 2


def count_by_kind(pipeline: Pipeline) -> dict[str, int]:
    return {
        "pre": len(pipeline.pre),
        "validators": len(pipeline.validators),
        "post": len(pipeline.post),
    }


def check_depth(pipeline: Pipeline) -> Refusal | None:
    """The refusal for every request of a policy that has too many extensions; None: the pipeline is
    within the limits.
    """
    by_kind = count_by_kind(pipeline)
    if sum(by_kind.values()) > MAX_EXTENSIONS:
        return _refusal("pipeline_too_deep", sum(by_kind.values()), MAX_EXTENSIONS)
    reasons = {
        "pre": "too_many_pre_processors",
        "validators": "too_many_validators",
        "post": "too_many_post_processors",
    }
    for kind, count in by_kind.items():
        if count > MAX_OF_A_KIND:
            return _refusal(reasons[kind], count, MAX_OF_A_KIND)
    return None


def _refusal(reason: str, count: int, most: int) -> Refusal:
    details = {"reason": reason, "count": count, "max": most}
    return Refusal(
        INVALID_REQUEST,
        f"The policy's pipeline has {count} extensions where {most} are allowed: {reason}",
        details,
    )


# -- Read a document as a Policy, or raise a PolicyError that lists every mistake with its path.


MAX_POLICY_BYTES = 256 * 1024  # bytes of a document


class ParsedPolicy(Struct, frozen=True):
    """A policy, its canonical document, and a warning for each older form that was read."""

    policy: Policy
    document: Mapping[str, object]
    warnings: tuple[PolicyFinding, ...]


def load_policy(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """`parse_policy` for the bytes of a JSON document. Checks depth first: a deeper document could
    be read, but not written back.
    """
    check_size(data)
    if is_deeper(data, MAX_DEPTH):
        raise PolicyError([("policy", f"is nested deeper than {MAX_DEPTH}")])
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise PolicyError([("policy", describe_mark(data) or f"is not JSON: {exc}")]) from exc
    return parse_policy(document, tenant_id, policy_id)


def check_size(data: bytes, most: int = MAX_POLICY_BYTES) -> None:
    """Raises PolicyError."""
    if len(data) > most:
        cause = (
            f"is larger than {MAX_POLICY_BYTES} bytes: it has {len(data)}; every router holds "
            "every policy in memory"
        )
        raise PolicyError([("policy", cause)])


def parse_policy(
    document: object, tenant_id: str, policy_id: str, version: int = 1, *, arm: str | None = None
) -> ParsedPolicy:
    """Read the document stored under (tenant_id, policy_id); `_shared` is a tenant too. `arm`: of a
    canary. Raises PolicyError.
    """
    if not isinstance(document, Mapping):
        raise PolicyError([("policy", "is not an object")])
    _check_counts(document)
    canonical, warnings = normalise(document)
    fields = Fields(canonical, "", Problems())
    return ParsedPolicy(
        read_policy(fields, tenant_id, policy_id, version, arm), canonical, warnings
    )


def _check_counts(document: Mapping[str, object]) -> None:
    """Check the lengths of all lists, before anything is read or rewritten. Raises PolicyError."""
    nested = document.get("extensions")
    problems = Problems()
    for part, prefix in (
        (document, ""),
        (nested if isinstance(nested, Mapping) else {}, "extensions."),
    ):
        for key, most in MAX_COUNTS.items():
            value = part.get(key)
            if isinstance(value, list | Mapping) and len(value) > most:
                problems.add(prefix + key, f"has {len(value)} entries where {most} are allowed")
    problems.raise_if_any()


def read_policy(
    fields: Fields, tenant_id: str, policy_id: str, version: int = 1, arm: str | None = None
) -> Policy:
    """Read every key of the newest form; deploy/policies_page.py notes which, and their bounds.
    Raises PolicyError.
    """
    _read_identity(fields, tenant_id, policy_id)
    providers, fallbacks = read_providers(fields), read_fallbacks(fields)
    if providers and not fallbacks and all(provider.weight == 0 for provider in providers):
        fields.refuse("providers", "every weight is 0 and there is no fallback")
    strategy = read_strategy(fields)
    sticky, breaker, rate_limit = read_sticky(fields), read_breaker(fields), read_rate_limit(fields)
    timeout_ms, is_high = fields.integer("timeout_ms", 1, 300_000, None), read_is_high(fields)
    pipeline, metadata = read_pipeline(fields), fields.free("metadata")
    uses = (*pipeline.pre, *pipeline.validators, *pipeline.post)
    conditions = sum(len(rule.when) for rule in fallbacks) + sum(len(use.when) for use in uses)
    if conditions > MOST_CONDITIONS:
        fields.refuse(
            "fallbacks",
            (
                f"{conditions} conditions with those of the extensions, where "
                f"{MOST_CONDITIONS} are allowed"
            ),
        )
    fields.close("a policy")
    fields.problems.raise_if_any()
    named = {"policy_id": policy_id, "policy_version": str(version)} | (
        {ARM: arm} if arm is not None else {}
    )
    return Policy(
        tenant_id=tenant_id,
        policy_id=policy_id,
        version=version,
        providers=providers,
        fallbacks=fallbacks,
        strategy=strategy,
        sticky=sticky,
        circuit_breaker=breaker,
        rate_limit=rate_limit,
        timeout_ms=timeout_ms,
        is_high=is_high,
        pipeline=pipeline,
        metadata=metadata,
        plan=make_plan(
            providers,
            (rule.to for rule in fallbacks),
            is_sticky=sticky is not None,
            metadata=named,
            usual_reason=WEIGHTED if strategy is None else strategy.type,
        ),
        refusal=check_depth(pipeline),
        arm=arm,
    )


def _read_identity(fields: Fields, tenant_id: str, policy_id: str) -> None:
    fields.choice("version", ("1.0",), "1.0")
    _check_id(
        fields, "tenant_id", tenant_id, is_legal=ids.is_scoped(tenant_id) or tenant_id == SHARED
    )
    _check_id(fields, "policy_id", policy_id, is_legal=ids.is_scoped(policy_id))


def _check_id(fields: Fields, key: str, stored: str, *, is_legal: bool) -> None:
    written = fields.take(key)
    if not is_legal:
        fields.refuse(
            key,
            f"{quote(stored)} is not an id: 1..128 of A-Z a-z 0-9 _ . : - without . or _ in front",
        )
    elif written not in (None, stored):
        fields.refuse(key, f"{quote(written)} is not {quote(stored)}, which it is stored under")
