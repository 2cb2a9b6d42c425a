"""Checks at the start that a user's function can be called with the arguments that it will get, and
later that it has run.

A handler with the wrong signature fails at every message, and would turn its whole stream into dead
letters.
"""

from __future__ import annotations

import inspect
from typing import Any

from router.core.errors import Misconfigured


class HandlerMisused(Misconfigured):
    """A handler returned an illegal value: it is not called again, and its messages stay in their
    stream.
    """


def require_call(
    setting: str, function: Any, *arguments: str, is_async: bool | None = None
) -> None:
    """Raises Misconfigured unless `function` takes these arguments; `is_async`: None = either."""
    expected = f"{'an async' if is_async else 'a'} function of ({', '.join(arguments)})"
    if not callable(function):
        raise Misconfigured(setting, f"should be {expected}, and is {type(function).__name__}")
    if (found := _signature(function)) is not None and not _can_take(found, len(arguments)):
        raise Misconfigured(
            setting,
            (
                f"should be {expected}, and {_name(function)} takes "
                f"{found.replace(return_annotation=found.empty)}"
            ),
        )
    if is_async is not None and is_async_callable(inspect.unwrap(function)) is not is_async:
        found_to_be = "is not: write `async def`" if is_async else "is asynchronous: write `def`"
        raise Misconfigured(setting, f"should be {expected}, and {_name(function)} {found_to_be}")


def is_async_callable(function: object) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object's, not any callable
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def require_finished(setting: str, returned: object) -> None:
    """Raise HandlerMisused if a plain function returned a coroutine or a generator: its body has
    not run, and never will.
    """
    if returned is None:  # nearly always
        return
    if inspect.iscoroutine(returned):
        returned.close()  # Python would warn that it was never awaited
    if (
        inspect.isawaitable(returned)
        or inspect.isgenerator(returned)
        or inspect.isasyncgen(returned)
    ):
        raise HandlerMisused(
            setting,
            f"it returned a {type(returned).__name__}, which never runs: write a plain function",
        )


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # some functions written in C have none


def _can_take(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
