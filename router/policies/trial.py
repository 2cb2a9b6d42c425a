"""What all instances answer about a candidate policy, combined: which recorded decisions would
change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

Compared = Mapping[str, Any]  # one recorded request, as `try_policy` returns it
Pair = tuple[str, str]
SIDES = ("before", "after")


class ProviderShare(Struct, frozen=True):
    """A provider's part of the recorded requests, 0..1, as decided and with the candidate."""

    provider: str
    before: float
    after: float


class PolicyTrial(Struct, frozen=True):
    """The newest recorded requests of all instances, newest first, by what the candidate changes."""

    changed: tuple[Compared, ...]
    unclear: tuple[Compared, ...]
    unchanged: int
    instances: int
    missing: int  # instances that did not answer in time
    # of all, also those that are unclear; the greatest today first
    shares: tuple[ProviderShare, ...] = ()
    # before and after: the mean latency_ms and cost of those decided
    expected: Mapping[str, Mapping[str, float]] = {}

    @property
    def total(self) -> int:
        return len(self.changed) + len(self.unclear) + self.unchanged

    @property
    def pairs(self) -> Mapping[Pair, int]:
        """How often each change occurs, the most frequent first."""
        return dict(
            Counter(
                (describe_choice(one["before"]), describe_choice(one["after"]))
                for one in self.changed
            ).most_common()
        )


def combine_answers(
    answers: Iterable[Mapping[str, Any]], against: int, missing: int
) -> PolicyTrial:
    """Combine the answers: each instance sent its newest; of all of them together the newest
    `against` count.
    """
    answers = list(answers)
    newest = sorted(
        (one for answer in answers for one in answer["compared"]), key=lambda one: -one["at_ms"]
    )[:against]
    return PolicyTrial(
        changed=tuple(one for one in newest if one["verdict"] == "changed"),
        unclear=tuple(one for one in newest if one["verdict"] == "unclear"),
        unchanged=sum(one["verdict"] == "unchanged" for one in newest),
        instances=len(answers) + missing,
        missing=missing,
        shares=_compute_shares(newest),
        expected={side: _compute_means(newest, f"expected_{side}") for side in SIDES},
    )


def _compute_shares(compared: Sequence[Compared]) -> tuple[ProviderShare, ...]:
    before, after = (
        Counter(one[side]["provider"] for one in compared if one[side].get("provider") is not None)
        for side in SIDES
    )
    names = sorted({*before, *after}, key=lambda name: (-before[name], name))
    return tuple(
        ProviderShare(name, before[name] / len(compared), after[name] / len(compared))
        for name in names
    )


def _compute_means(compared: Sequence[Compared], key: str) -> Mapping[str, float]:
    """Empty: every request was refused."""
    known = [one[key] for one in compared if one.get(key) is not None]
    return (
        {name: sum(one[name] for one in known) / len(known) for name in ("latency_ms", "cost")}
        if known
        else {}
    )


def describe_choice(choice: Compared) -> str:
    """Return `openai (weighted)`; for a refusal its code."""
    provider = choice.get("provider")
    return f"{provider} ({choice['reason']})" if provider is not None else str(choice["reason"])


def list_sentences(found: PolicyTrial) -> Iterator[str]:
    """What it comes to, for people."""
    yield f"{len(found.changed)} of {found.total} recorded decisions would change"
    yield f"{found.unchanged} would not"
    if found.unclear:
        yield f"{len(found.unclear)} could not be compared"
    if found.missing:
        yield f"{found.missing} of {found.instances} instances did not answer"
