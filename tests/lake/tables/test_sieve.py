"""A number is found exactly when it is there."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from router.lake.tables.sieve import BITS, among, sieve

near = st.integers(-3, 3).flatmap(lambda low: st.sampled_from([low, low + (1 << BITS), low - (1 << 62)]))  # the last bits meet
numbers = st.lists(near | st.integers(-(1 << 63), (1 << 63) - 1), max_size=20)


@given(numbers, numbers)
def test_the_places_found_are_those_of_the_numbers_that_are_there(many: list[int], few: list[int]) -> None:
    wanted = pa.array(few, pa.int64())
    found = among(pa.array(many, pa.int64()), wanted, sieve(wanted))
    assert found.to_pylist() == [place for place, number in enumerate(many) if number in few]
