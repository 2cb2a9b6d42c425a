"""The answers of `get_provider_stats` of all instances as one list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def merge_stats(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each instance knows the figures of all; of two the one counts that knows more results. In
    order of tenant and provider.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for answer in answers:
        for row in answer["providers"]:
            key = row["tenant_id"], row["provider_id"]
            if key not in found or row["samples"] > found[key]["samples"]:
                found[key] = row
    return [found[key] for key in sorted(found)]


def describe_errors(row: Mapping[str, Any]) -> str | None:
    """The errors of a row by class, behind the word "fails" where strategies leave the provider
    out.
    """
    told = [f"{count} {name}" for name, count in row["errors"].items() if count]
    return ", ".join([*(["fails"] if row["is_failing"] else []), *told]) or None
