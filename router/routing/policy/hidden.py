"""The paths of a condition whose values a masked request does not hold: a payload, a masked value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router.contracts.request import RouteRequest
from router.core.masking import CUT, MASK
from router.routing.policy.conditions import OPERATORS

NOT_KEPT = ("payload", "payload_ref")  # of a message


def find_hidden_paths(request: RouteRequest, when: Mapping[str, object]) -> Iterator[str]:
    """The paths of `when` whose values are hidden in the masked request, in the order of the condition."""
    return (path for path in _paths(when) if _is_hidden(request, path.split(".")))


def _paths(when: Mapping[str, object]) -> Iterator[str]:
    for name, value in when.items():
        if name not in OPERATORS:
            yield name
        elif isinstance(value, list):
            yield from (str(side["var"]) for side in value if isinstance(side, Mapping) and "var" in side)


def _is_hidden(request: RouteRequest, path: Sequence[str]) -> bool:
    match path:
        case ["message", part, *_] if part in NOT_KEPT:
            return True
        case ["message", "metadata", *steps]:
            return _is_masked_at(request.metadata, steps)
        case ["message", *_]:
            return False
        case [("context" | "constraints" | "metadata") as root, *steps]:
            return _is_masked_at(getattr(request, root), steps)
        case _:
            return _is_masked_at(request.context, path)


def _is_masked_at(value: object, steps: Sequence[str]) -> bool:
    for step in steps:
        if not isinstance(value, Mapping):
            break
        value = value.get(step)
    return value in (MASK, CUT)
