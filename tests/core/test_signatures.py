"""What may be a handler, by its shape."""

from collections.abc import AsyncIterator, Callable
from functools import partial, wraps
from typing import Any

import pytest

from router.core.errors import Misconfigured
from router.core.user_functions import (
    HandlerMisused,
    is_async_callable,
    require_call,
    require_finished,
)


async def right(connection: Any, event: Any) -> None: ...


def plain(connection: Any, event: Any) -> None: ...


async def of_one(event: Any) -> None: ...


async def of_three(connection: Any, event: Any, more: Any) -> None: ...


@wraps(right)
def wrapped(*arguments: Any) -> Any:
    return right(*arguments)


class Called:
    async def __call__(self, connection: Any, event: Any) -> None: ...


@pytest.mark.parametrize(
    "function", [right, wrapped, partial(of_three, 1), Called(), Called().__call__]
)
def test_what_can_be_called_so_is_taken(function: Any) -> None:
    require_call("handler", function, "connection", "event", is_async=True)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (plain, r"an async function of \(connection, event\), and plain is not: write `async def`"),
        (of_one, r"of_one takes \(event: .*\)"),
        (of_three, "of_three takes"),
        (Called, "takes"),
        (7, "and is int"),
    ],
)
def test_what_cannot_is_refused_with_what_it_should_be(function: Any, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        require_call("handler", function, "connection", "event", is_async=True)


def test_what_must_be_plain_is_told_so() -> None:
    with pytest.raises(Misconfigured, match="is asynchronous: write `def`"):
        require_call("apply", right, "ctx", "envelope", is_async=False)


@pytest.mark.parametrize(
    ("function", "is_async"),
    [(right, True), (partial(right, 1), True), (Called(), True), (Called, False), (wrapped, False)],
)
def test_what_is_called_like_an_async_function_is_known(function: Any, is_async: bool) -> None:
    """Not by its decorator's `wraps`: a plain function may run the async one by itself."""
    assert is_async_callable(function) is is_async


def test_what_shows_no_signature_is_taken_as_it_is() -> None:
    require_call("handler", dict.get, "connection", "event")


async def piecewise_and_later() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    "make", [lambda: right(1, 2), lambda: (one for one in ()), piecewise_and_later]
)
def test_a_body_that_has_not_run_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(HandlerMisused, match=r"apply: it returned .*, which never runs"):
        require_finished("apply", make())


@pytest.mark.parametrize("returned", [None, 1, [1], iter(()), plain])
def test_what_a_function_returned_that_has_run_is_taken(returned: object) -> None:
    require_finished("apply", returned)
