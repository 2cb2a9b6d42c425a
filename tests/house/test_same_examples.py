"""What a property test is given does not depend on what its process has loaded."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.support import same_examples

CONSTANT = "a constant of a module"


@pytest.fixture(autouse=True)
def _without_kept_constants() -> Iterator[None]:
    providers.CONSTANTS_CACHE.cache.clear()
    yield
    providers.CONSTANTS_CACHE.cache.clear()


def draw_examples() -> list[str]:
    drawn: list[str] = []

    @settings(max_examples=500, database=None)
    @given(st.text())
    def keep(text: str) -> None:
        drawn.append(text)

    keep()
    return drawn


def load_a_module() -> providers.Constants:
    return providers.Constants(strings={CONSTANT})


def test_a_constant_of_a_module_that_is_loaded_is_no_example(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(same_examples, "_collect_constants", load_a_module)
    assert CONSTANT not in draw_examples()


def test_without_that_it_would_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_get_local_constants", load_a_module)
    assert CONSTANT in draw_examples()
