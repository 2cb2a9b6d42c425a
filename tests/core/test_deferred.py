"""A value that comes by a call."""

import asyncio

import pytest

from router.core.deferred import Deferred


def heard(later: Deferred[int]) -> list[object]:
    told: list[object] = []
    later.add_callback(told.append)
    return told


def test_it_is_heard_when_it_comes_and_at_once_when_it_is_here() -> None:
    later: Deferred[int] = Deferred()
    before = heard(later)
    assert (before, later.is_resolved) == ([], False)
    later.resolve(1)
    assert (before, heard(later), later.is_resolved) == ([1], [1], True)


def test_only_the_first_that_comes_counts() -> None:
    later: Deferred[int] = Deferred()
    told = heard(later)
    later.resolve(1)
    later.resolve(2)
    later.cancel()
    assert told == [1]


def test_a_step_is_taken_of_a_value_and_not_of_a_failure() -> None:
    first, second = Deferred[int](), Deferred[int]()
    doubled, failed = (
        heard(first.map(lambda value: 2 * value)),
        heard(second.map(lambda value: 2 * value)),
    )
    away = OSError("away")
    first.resolve(4)
    second.resolve(away)
    assert (doubled, failed) == ([8], [away])


def test_a_step_that_raises_is_passed_on() -> None:
    later: Deferred[int] = Deferred()
    told = heard(later.map(lambda value: 1 // value))
    later.resolve(0)
    assert isinstance(told[0], ZeroDivisionError)


@pytest.mark.parametrize("is_early", [True, False])
def test_one_that_is_converted_ends_with_what_the_step_makes_of_its_value(is_early: bool) -> None:
    value, failure, away = Deferred[int](), Deferred[int](), OSError("away")
    if is_early:
        value.resolve(4), failure.resolve(away)
    doubled, failed = (
        heard(value.convert(lambda value: 2 * value)),
        heard(failure.convert(lambda value: 2 * value)),
    )
    value.resolve(4), failure.resolve(away)
    assert (doubled, failed) == ([8], [away])


def test_one_that_is_converted_and_cancelled_takes_no_step() -> None:
    later: Deferred[int] = Deferred()
    steps: list[int] = []
    told = heard(later.convert(steps.append))
    later.cancel()
    later.resolve(1)
    assert (steps, [type(one) for one in told]) == ([], [asyncio.CancelledError])


def test_who_no_longer_waits_takes_no_step_and_no_other_along() -> None:
    later: Deferred[int] = Deferred()
    steps: list[int] = []
    gone, other = later.map(steps.append), heard(later)
    gone.cancel()
    later.resolve(1)
    assert (steps, other) == ([], [1])


async def test_it_can_be_awaited() -> None:
    value, failure, cancelled = Deferred[int](), Deferred[int](), Deferred[int]()
    value.resolve(1)
    asyncio.get_running_loop().call_soon(failure.resolve, OSError("away"))
    cancelled.cancel()
    assert await value == 1
    with pytest.raises(OSError, match="away"):
        await failure
    with pytest.raises(asyncio.CancelledError):
        await cancelled


async def test_a_caller_that_awaits_a_stop_iteration_gets_a_runtime_error_that_names_it() -> None:
    """No future takes one, and a coroutine would end by it."""
    stopped: Deferred[int] = Deferred()
    stopped.resolve(StopIteration("no row"))
    with pytest.raises(RuntimeError, match=r"StopIteration\('no row'\)") as caught:
        await stopped
    assert isinstance(caught.value.__cause__, StopIteration)
