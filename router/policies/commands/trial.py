"""Show what a candidate policy would change (`services.policy_trial`), for people and for programs."""

from __future__ import annotations

from msgspec import structs

from router.policies.trial import SIDES, Compared, PolicyTrial, describe_choice, list_sentences
from router.shell.output import print_table

CHANGES = ("decided", "tenant", "request", "before", "after")
PAIRS = ("before", "after", "requests")
SHARES = ("provider", "share", "with the candidate")
UNCERTAINTIES = ("request", "why it cannot be compared")


def print_trial(found: PolicyTrial) -> None:
    if found.changed:
        print_table(CHANGES, map(_row, found.changed))
        print_table(PAIRS, ((before, after, count) for (before, after), count in found.pairs.items()))
    print_table(SHARES, ((one.provider, f"{one.before:.1%}", f"{one.after:.1%}") for one in found.shares))
    if all(found.expected.get(side) for side in SIDES):
        print(f"expected latency {_describe_means(found, 'latency_ms', ' ms')}, expected cost {_describe_means(found, 'cost', '')}")
    if found.unclear:
        print_table(UNCERTAINTIES, ((one["request_id"], one["uncertainty"]) for one in found.unclear))
    print(f"{'. '.join(list_sentences(found))}.")


def _describe_means(found: PolicyTrial, name: str, unit: str) -> str:
    return " -> ".join(f"{found.expected[side][name]:.4g}{unit}" for side in SIDES)


def list_trial_fields(found: PolicyTrial) -> dict[str, object]:
    pairs = [{"before": before, "after": after, "requests": count} for (before, after), count in found.pairs.items()]
    shares = [structs.asdict(one) for one in found.shares]
    return {**{name: getattr(found, name) for name in found.__struct_fields__}, "shares": shares, "pairs": pairs}


def _row(one: Compared) -> tuple[object, ...]:
    from datetime import UTC, datetime

    at = datetime.fromtimestamp(one["at_ms"] / 1000, UTC).isoformat(timespec="seconds")
    return at, one["tenant_id"], one["request_id"], describe_choice(one["before"]), describe_choice(one["after"])
