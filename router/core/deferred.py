"""A value that is there later, handed over by a call: a future without the event loop's part in it.
And an awaitable whose first step says whether it waits at all.

For work that is done for many callers at once (one request for a hundred lookups). A future costs
each caller two turns of the loop, about 10 µs; this costs two calls. A caller that must wait may
await it all the same.

    deferred = Deferred()              its maker calls `resolve` once, in time, with the value or
                                       with the exception
    deferred.add_callback(callback)    `callback` is called with the value or the exception, at once
                                       if it is there
    deferred.map(function)             another Deferred, of `function(value)`
    deferred.convert(function)         this Deferred, from now on of `function(value)`
    deferred.cancel()                  resolve with CancelledError: what the maker resolves with
                                       afterwards is ignored

A maker that may keep a value back for long gives a HoldableDeferred, and says so by `hold`: what
only waits for its turn goes on then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

DeferredCallback = Callable[[T | BaseException], object]


class Deferred(Generic[T]):
    """One value, or the exception in its place. Like a future, it belongs to one loop's thread."""

    __slots__ = ("_callbacks", "_function", "_result", "is_resolved")

    def __init__(self) -> None:
        self.is_resolved = False
        self._function: Callable[[Any], T] | None = None
        self._callbacks: list[DeferredCallback[T]] = []

    def resolve(self, result: T | BaseException) -> None:
        """Call every callback with the result. Only the first call counts."""
        if not self.is_resolved:
            self.is_resolved = True
            if self._function is not None:
                result = _apply(self._function, result)
            self._result = result
            for callback in self._callbacks:
                callback(result)

    def resolve_with(self, function: Callable[[R], T], value: R) -> None:
        """Resolve with `function(value)`, or with what it raises."""
        if not self.is_resolved:
            self.resolve(_apply(function, value))

    def cancel(self) -> None:
        self.resolve(asyncio.CancelledError())

    def add_callback(self, callback: DeferredCallback[T]) -> None:
        if self.is_resolved:
            callback(self._result)
        else:
            self._callbacks.append(callback)

    def map(self, function: Callable[[T], R]) -> Deferred[R]:
        """A Deferred of `function(value)`; exceptions are passed on. Cancelling it does not cancel
        this one.
        """
        mapped: Deferred[R] = Deferred()
        self.add_callback(
            lambda result: None if mapped.is_resolved else mapped.resolve(_apply(function, result))
        )
        return mapped

    def convert(self, function: Callable[[T], R]) -> Deferred[R]:
        """`map` in place, at a third of its cost: for the only holder of this Deferred, before it
        adds a callback.
        """
        converted = cast("Deferred[R]", self)
        if self.is_resolved:
            converted._result = _apply(function, self._result)
        else:
            converted._function = function
        return converted

    def __await__(self) -> Generator[Any, None, T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.add_callback(lambda result: None if future.done() else _resolve_future(future, result))
        return (yield from future)


class HoldableDeferred(Deferred[T]):
    """A Deferred whose maker tells when its value will take long, though all is well: who only
    waits for its turn goes on.
    """

    __slots__ = ("_on_held", "is_held")

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self._on_held: list[Callable[[], object]] = []

    def hold(self) -> None:
        """The value comes later. Calls what waits for that, the first time."""
        if not self.is_held:
            self.is_held = True
            for callback in self._on_held:
                callback()

    def on_held(self, callback: Callable[[], object]) -> None:
        """`callback` is called when the value is held back; at once if it is. It may never be."""
        if self.is_held:
            callback()
        else:
            self._on_held.append(callback)


def _apply(function: Callable[[T], R], result: T | BaseException) -> R | BaseException:
    if isinstance(result, BaseException):
        return result
    try:
        return function(result)
    except Exception as exc:  # the callbacks decide what it means
        return exc


def _resolve_future(future: asyncio.Future[T], result: T | BaseException) -> None:
    if isinstance(result, asyncio.CancelledError):
        future.cancel()
    elif isinstance(result, BaseException):
        future.set_exception(_make_raisable(result))
    else:
        future.set_result(result)


def _make_raisable(exc: BaseException) -> BaseException:
    """No future takes a StopIteration: a coroutine that awaits it would end as if it had returned.
    Python's own answer, a RuntimeError.
    """
    if not isinstance(exc, StopIteration):
        return exc
    raisable = RuntimeError(f"it raised {exc!r}")
    raisable.__cause__ = exc
    return raisable


# -- The rest of an awaitable whose first step is done: so a caller learns whether it waits before
# it spends anything on the waiting.
#
# steps = handler(message).__await__()
# try:
#     waits_for = next(steps)                       it runs until it ends or waits
# except StopIteration as ended:
#     return ended.value                            it never waits: no task, timer or slot is needed
# return await RemainingSteps(steps, waits_for)
#
# Both must happen in one task: what the awaitable waits for wakes that task, and its timeouts
# cancel it.


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
