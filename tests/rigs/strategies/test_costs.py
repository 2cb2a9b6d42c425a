"""What is judged of the costs, and what the page says."""

from tests.rigs.strategies.costs import Costs, write_page


def some_costs(own: float = 3.0, more: float = 1.0) -> Costs:
    return Costs(
        "old",
        [{"a draw": 9.0}, {"a draw": own}, {"a draw": own}],
        [{"a draw": 3.0}] * 3,
        [{"least_latency": more}] * 3,
    )


def test_one_round_that_was_disturbed_says_nothing() -> None:
    assert some_costs().is_kept
    assert "| a draw | 3.00 | 3.00 | 1.00 |" in write_page({}, some_costs())


def test_a_difference_that_two_runs_of_the_same_code_show_is_none() -> None:
    short = Costs("old", [{"a draw": 0.30}], [{"a draw": 0.27}], [{"least_latency": 1.0}])
    assert short.is_kept


def test_what_costs_more_than_promised_is_bold_and_not_kept() -> None:
    assert not some_costs(own=3.3).is_kept
    assert not some_costs(more=2.1).is_kept
    page = write_page({}, some_costs(3.3, 2.1))
    assert "| a draw | 3.30 | 3.00 | **1.10** |" in page
    assert "| least_latency | **2.10** |" in page
