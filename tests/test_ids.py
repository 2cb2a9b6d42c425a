"""Keys of buckets: made of parts, and taken apart again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core.ids import key, parts_of


@given(st.lists(st.text(), min_size=1).map(tuple))
def test_what_a_key_was_made_of_is_found_again(parts: tuple[str, ...]) -> None:
    assert parts_of(key(*parts)) == parts


@pytest.mark.parametrize("other", ["a=2", "a=2e", "=41", "a b", "a.*", "ä", "=FF"])
def test_a_key_that_nobody_made_has_no_parts(other: str) -> None:
    assert parts_of(other) is None
