"""The rest of an awaitable whose first step is done: so a caller learns whether it waits before it
spends anything on the waiting.

    steps = handler(message).__await__()
    try:
        waits_for = next(steps)                             it runs until it ends or waits
    except StopIteration as ended:
        return ended.value                                  it never waits: no task, timer or slot is needed
    return await RemainingSteps(steps, waits_for)

Both must happen in one task: what the awaitable waits for wakes that task, and its timeouts cancel
it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class RemainingSteps(Generic[T_co]):
    """Awaited once. `waits_for` is what the first step handed to the event loop."""

    __slots__ = ("_steps", "_waits_for")

    def __init__(self, steps: Generator[Any, None, T_co], waits_for: object) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, None, T_co]:
        waits_for = self._waits_for
        while True:
            try:
                yield waits_for
            except BaseException as exc:
                # as `yield from` passes it on: a cancellation is the awaitable's to handle
                try:
                    waits_for = self._steps.throw(exc)
                except StopIteration as ended:
                    value: T_co = ended.value
                    return value
            else:
                return (yield from self._steps)
