"""A share of failures over a sliding span, in bounded memory."""

from hypothesis import given
from hypothesis import strategies as st

from router.core.breakers import Window
from router.core.breakers.states import SLICES

SPAN = 60.0


def test_without_calls_nothing_failed() -> None:
    assert Window(SPAN).rate(0) == 0


@given(st.lists(st.tuples(st.floats(0, 30) | st.floats(0, 0.5), st.booleans()), max_size=200))
def test_all_that_is_younger_than_nineteen_twentieths_counts_and_nothing_older_than_the_span(
    calls: list[tuple[float, bool]],
) -> None:
    window, now, noted = Window(SPAN), 0.0, []
    for step, failed in calls:
        now += step
        window.note(now, failed=failed)
        noted.append((now, failed))
    window.rate(now)
    slack = SPAN / SLICES
    assert (
        sum(at > now - SPAN + slack for at, _ in noted)
        <= window.calls
        <= sum(at > now - SPAN for at, _ in noted)
    )
    assert window.failures <= window.calls
    assert len(window._slices) <= SLICES + 1


def test_many_calls_share_a_slice() -> None:
    window = Window(SPAN)
    for call in range(10_000):
        window.note(call / 100, failed=False)
    assert len(window._slices) <= SLICES + 1
