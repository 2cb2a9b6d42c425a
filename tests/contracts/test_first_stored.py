"""A replay says when its message was stored first; a time after the replay was stored is not
believed.
"""

import pytest

from router.contracts.headers import FIRST_STORED, first_stored_ms, read_first_stored
from router.contracts.result import read_result
from router.contracts.worker import DAY_MS
from router.core.outcome import Fault
from tests.support.workers import a_result

STORED_MS = a_result().stored_ms


def test_a_replay_carries_it() -> None:
    assert read_first_stored("9" * 15) == 10**15 - 1
    assert first_stored_ms(a_result({FIRST_STORED: str(STORED_MS - DAY_MS)})) == STORED_MS - DAY_MS


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9", "٣", "9" * 16, str(STORED_MS + 1)])
def test_what_is_no_earlier_time_counts_as_absent(text: str) -> None:
    assert first_stored_ms(a_result({FIRST_STORED: text})) == STORED_MS


def test_a_result_of_too_long_ago_is_refused_however_it_says_so() -> None:
    found = read_result(
        a_result({FIRST_STORED: str(STORED_MS - 41 * DAY_MS)}, timestamp=None)
    ).found
    assert isinstance(found, Fault)
    assert found.field == "timestamp"


def test_a_time_that_was_too_far_ahead_stays_so_when_it_is_replayed() -> None:
    found = read_result(
        a_result({FIRST_STORED: str(STORED_MS - 3 * DAY_MS)}, timestamp=STORED_MS - DAY_MS)
    ).found
    assert isinstance(found, Fault)
