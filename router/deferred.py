"""A value that comes later, by a call: what a future is, without the loop's part in it.

For work that is done for many at once (one request for a hundred lookups). A future costs each of them two turns of the
loop, about 10 µs; this costs two calls. Whoever needs to wait may await it all the same.

    later = Deferred()        its maker calls `come` once, in time, whatever happens: with the value, or with why there is none
    later.tell(hear)       `hear` is called with what came, when it comes
    later.then(step)       another Deferred, of what `step` says of the value
    later.cancel()         nobody wants it any more: CancelledError came, and what its maker says is heard by nobody
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

Hear = Callable[[T | BaseException], object]


class Deferred(Generic[T]):
    """One value, or the exception in its place. It lives on one loop's thread, like a future."""

    __slots__ = ("_came", "_hears", "is_here")

    def __init__(self) -> None:
        self.is_here = False
        self._hears: list[Hear[T]] = []

    def come(self, what: T | BaseException) -> None:
        """Only the first that comes counts."""
        if not self.is_here:
            self.is_here = True
            self._came = what
            for hear in self._hears:
                hear(what)

    def cancel(self) -> None:
        self.come(asyncio.CancelledError())

    def tell(self, hear: Hear[T]) -> None:
        if self.is_here:
            hear(self._came)
        else:
            self._hears.append(hear)

    def then(self, step: Callable[[T], R]) -> Deferred[R]:
        """What is raised, by its maker or by `step`, is passed on; cancelling what is returned leaves this one alone."""
        later: Deferred[R] = Deferred()
        self.tell(lambda came: None if later.is_here else later.come(_step(step, came)))
        return later

    def __await__(self) -> Generator[Any, None, T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.tell(lambda came: None if future.done() else _settle(future, came))
        return (yield from future)


def _step(step: Callable[[T], R], came: T | BaseException) -> R | BaseException:
    if isinstance(came, BaseException):
        return came
    try:
        return step(came)
    except Exception as exc:  # it is for the hearer to say what it means
        return exc


def _settle(future: asyncio.Future[T], came: T | BaseException) -> None:
    if isinstance(came, asyncio.CancelledError):
        future.cancel()
    elif isinstance(came, BaseException):
        future.set_exception(came)
    else:
        future.set_result(came)
