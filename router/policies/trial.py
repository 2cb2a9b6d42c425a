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
                (describe_choice(case["before"]), describe_choice(case["after"]))
                for case in self.changed
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
        (case for answer in answers for case in answer["compared"]), key=lambda case: -case["at_ms"]
    )[:against]
    return PolicyTrial(
        changed=tuple(case for case in newest if case["verdict"] == "changed"),
        unclear=tuple(case for case in newest if case["verdict"] == "unclear"),
        unchanged=sum(case["verdict"] == "unchanged" for case in newest),
        instances=len(answers) + missing,
        missing=missing,
        shares=_compute_shares(newest),
        expected={side: _compute_means(newest, f"expected_{side}") for side in SIDES},
    )


def _compute_shares(compared: Sequence[Compared]) -> tuple[ProviderShare, ...]:
    before, after = (
        Counter(
            case[side]["provider"] for case in compared if case[side].get("provider") is not None
        )
        for side in SIDES
    )
    names = sorted({*before, *after}, key=lambda name: (-before[name], name))
    return tuple(
        ProviderShare(name, before[name] / len(compared), after[name] / len(compared))
        for name in names
    )


def _compute_means(compared: Sequence[Compared], key: str) -> Mapping[str, float]:
    """Empty: every request was refused."""
    choices = [case[key] for case in compared if case.get(key) is not None]
    return (
        {
            name: sum(case[name] for case in choices) / len(choices)
            for name in ("latency_ms", "cost")
        }
        if choices
        else {}
    )


def describe_choice(choice: Compared) -> str:
    """Return `openai (weighted)`; for a refusal its code."""
    provider = choice.get("provider")
    return f"{provider} ({choice['reason']})" if provider is not None else str(choice["reason"])


def list_sentences(trial: PolicyTrial) -> Iterator[str]:
    """What it comes to, for people."""
    yield f"{len(trial.changed)} of {trial.total} recorded decisions would change"
    yield f"{trial.unchanged} would not"
    if trial.unclear:
        yield f"{len(trial.unclear)} could not be compared"
    if trial.missing:
        yield f"{trial.missing} of {trial.instances} instances did not answer"
