"""Whether a function of a user's own can be called as it will be: asked at the start, not at the first message.

A handler of the wrong shape fails at every message, and would empty its stream into the dead letters.
"""

from __future__ import annotations

import inspect
from typing import Any

from router.errors import Misconfigured


class HandlerMisused(Misconfigured):
    """A handler answered what means nothing: it is not called again, and its messages stay where they are."""


def require_call(setting: str, function: Any, *arguments: str, is_async: bool | None = None) -> None:
    """Raises Misconfigured unless `function` takes these arguments; `is_async`: None = either."""
    wanted = f"{'an async' if is_async else 'a'} function of ({', '.join(arguments)})"
    if not callable(function):
        raise Misconfigured(setting, f"should be {wanted}, and is {type(function).__name__}")
    if (found := _signature(function)) is not None and not _takes(found, len(arguments)):
        raise Misconfigured(setting, f"should be {wanted}, and {_name(function)} takes {found.replace(return_annotation=found.empty)}")
    if is_async is not None and _is_async(function) is not is_async:
        found_to_be = "is not: write `async def`" if is_async else "is asynchronous: write `def`"
        raise Misconfigured(setting, f"should be {wanted}, and {_name(function)} {found_to_be}")


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # some that are written in C show none


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _is_async(function: Any) -> bool:
    plain = inspect.unwrap(function)
    call = getattr(type(plain), "__call__", None)  # noqa: B004 - an object with an async one is wanted, not any that can be called
    return inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(call)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
