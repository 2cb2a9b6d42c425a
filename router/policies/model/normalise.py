"""Older forms of a policy document, rewritten to the one form that the parser knows.

Every rewrite adds a warning that names the new form. Any other content is passed on unchanged, even
if it is wrong: the parser reports mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from router.policies.model.policy import PolicyFinding

# The status that a rule matches whenever nothing is eligible, whatever the cause: the last resort.
NO_PROVIDER_AVAILABLE = "no_provider_available"
FULL_WEIGHT = 100
_DURATION = re.compile(r"([0-9]{1,18})([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}

Document = dict[str, Any]  # JSON on its way to the parser: nothing about it is known yet
Warn = Callable[[str, str], None]


def normalise(document: Mapping[str, object]) -> tuple[Document, tuple[PolicyFinding, ...]]:
    """The canonical document (a copy) and a warning for each older form in it."""
    canonical: Document = dict(document)
    warnings: list[PolicyFinding] = []
    for rewrite in (
        _nested_extensions,
        _provider_names,
        _weights_map,
        _status_lists,
        _single_fallback,
        _sticky_names,
    ):
        rewrite(
            canonical,
            lambda path, message: warnings.append(PolicyFinding(path, "warning", message)),
        )
    return canonical, tuple(warnings)


def _nested_extensions(document: Document, warn: Warn) -> None:
    nested = document.get("extensions")
    kinds = ("pre", "validators", "post")
    if isinstance(nested, Mapping) and all(
        kind in kinds and kind not in document for kind in nested
    ):
        warn("extensions", "write pre, validators and post at the top")
        document.update(nested)
        del document["extensions"]


def _provider_names(document: Document, warn: Warn) -> None:
    listed = document.get("providers")
    if isinstance(listed, list):
        is_weighted = isinstance(document.get("weights"), Mapping)
        document["providers"] = [
            _provider(entry, index, is_weighted, warn) for index, entry in enumerate(listed)
        ]


def _provider(entry: object, index: int, is_weighted: bool, warn: Warn) -> object:
    if isinstance(entry, str):
        warn(f"providers[{index}]", "write {name, weight, priority}")
        # A bare list is an order of preference; beside `weights` it only lists the providers.
        return (
            {"name": entry}
            if is_weighted
            else {"name": entry, "weight": FULL_WEIGHT, "priority": max(0, 100 - index)}
        )
    if isinstance(entry, Mapping) and "id" in entry and "name" not in entry:
        warn(f"providers[{index}].id", "write name")
        renamed = {
            "name": entry["id"],
            **{key: value for key, value in entry.items() if key != "id"},
        }
        return renamed if is_weighted else {"weight": FULL_WEIGHT, **renamed}
    return entry


def _weights_map(document: Document, warn: Warn) -> None:
    weights = document.get("weights")
    if not isinstance(weights, Mapping):
        return
    warn("weights", "write providers[].weight, 0..100")
    left = _scale_weights(weights)
    if document.get("providers") is None:
        document["providers"] = [{"name": name} for name in left]
    if isinstance(document["providers"], list):
        document["providers"] = [_add_weight(entry, left) for entry in document["providers"]]
    del document["weights"]
    if left:  # weights of unlisted providers: the parser refuses the key
        document["weights"] = left


def _scale_weights(weights: Mapping[str, object]) -> Document:
    """Weights 0..1 as 0..100."""
    figures = [
        value
        for value in weights.values()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(figures) < len(weights) or max(figures, default=2) > 1:
        return dict(weights)
    return {
        name: round(value * FULL_WEIGHT, 9) for name, value in zip(weights, figures, strict=True)
    }


def _add_weight(entry: object, left: Document) -> object:
    if (
        isinstance(entry, Mapping)
        and "weight" not in entry
        and isinstance(entry.get("name"), str)
        and entry["name"] in left
    ):
        return {**entry, "weight": left.pop(entry["name"])}
    return entry


def _status_lists(document: Document, warn: Warn) -> None:
    rules = document.get("fallbacks")
    if isinstance(rules, list):
        document["fallbacks"] = [_rule(rule, index, warn) for index, rule in enumerate(rules)]


def _rule(rule: object, index: int, warn: Warn) -> object:
    if isinstance(rule, Mapping) and isinstance(rule.get("when"), list):
        warn(f"fallbacks[{index}].when", 'write {"status": [...]}')
        return {**rule, "when": {"status": rule["when"]}}
    return rule


def _single_fallback(document: Document, warn: Warn) -> None:
    old = document.get("fallback")
    rules = document.get("fallbacks") or []
    if not isinstance(rules, list) or not isinstance(old, str | Mapping):
        return
    target = {"provider": old} if isinstance(old, str) else old
    if "provider" not in target or not set(target) <= {"provider", "conditions"}:
        return
    warn("fallback", "write a last rule in fallbacks: {when, retry, to}")
    statuses = target.get("conditions") or [NO_PROVIDER_AVAILABLE]
    document["fallbacks"] = [
        *rules,
        {"when": {"status": statuses}, "retry": 0, "to": target["provider"]},
    ]
    del document["fallback"]


def _sticky_names(document: Document, warn: Warn) -> None:
    if not isinstance(document.get("sticky"), Mapping):
        return
    sticky: Document = dict(document["sticky"])
    for old, new in (("key", "session_key"), ("ttl_seconds", "ttl"), ("ttl_sec", "ttl")):
        if old not in sticky:
            continue
        value = f"{sticky[old]}s" if new == "ttl" and isinstance(sticky[old], int) else sticky[old]
        # else the parser refuses the older name
        if _is_same_value(sticky.setdefault(new, value), value):
            warn(f"sticky.{old}", f"write {new}")
            del sticky[old]
    document["sticky"] = sticky


def _is_same_value(new: object, old: object) -> bool:
    """Whether two texts are equal, or are the same duration: `10m` and `600s`."""
    if new == old:
        return True
    times = [_DURATION.fullmatch(text) if isinstance(text, str) else None for text in (new, old)]
    seconds = [int(time[1]) * _SECONDS[time[2]] for time in times if time is not None]
    return len(seconds) == 2 and seconds[0] == seconds[1]
