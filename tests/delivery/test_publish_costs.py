"""Which way is sooner, told from what was measured: on disks of several speeds, with hiccups."""

import pytest

from router.delivery.publish.publish_costs import (
    CHEAP_S,
    LEAST_TRIAL,
    TRIAL_BATCHES,
    TRIAL_EVERY_S,
    CostLine,
    PublishCosts,
)

NOW = 1_000.0


def measured(each_s: float, batch_s: float, in_batch_s: float) -> PublishCosts:
    """Of a stream with these prices; batches of several sizes were seen."""
    costs = PublishCosts()
    costs.add_singles(1, 2 * each_s, NOW)
    for messages in (30, 100, 300):
        costs.add_singles(messages, messages * each_s, NOW)
        costs.add_batch(messages, batch_s + messages * in_batch_s, NOW)
    return costs


@pytest.mark.parametrize(
    ("each_s", "batch_s", "in_batch_s", "least"),
    [
        (0.0025, 0.010, 0.00002, 5),  # a disk: a batch waits for it four times
        (0.0002, 0.002, 0.00002, 12),  # a fast one
        (0.005, 0.005, 0.00002, 2),
    ],
)
def test_a_batch_pays_from_where_the_lines_cross(
    each_s: float, batch_s: float, in_batch_s: float, least: int
) -> None:
    costs = measured(each_s, batch_s, in_batch_s)
    assert next(count for count in range(1, 1_000) if costs.pays(count)) == least
    assert costs.is_dear
    assert not costs.pays(1)


def test_without_a_slow_disk_no_batch_pays() -> None:
    costs = measured(each_s=0.00003, batch_s=0.005, in_batch_s=0.00003)
    assert not any(costs.pays(count) for count in range(1_000))
    assert not costs.is_dear


def test_what_was_not_measured_is_not_dear_and_many_are_a_trial() -> None:
    costs = PublishCosts()
    assert not costs.is_dear
    assert not costs.pays(LEAST_TRIAL - 1)
    assert costs.pays(LEAST_TRIAL)


def test_a_batch_is_tried_where_many_wait_for_a_slow_stream_and_again_after_a_while() -> None:
    costs = PublishCosts()
    costs.add_singles(100, 100 * 2 * CHEAP_S, NOW)
    assert not costs.begin_trial(LEAST_TRIAL - 1, NOW)
    assert costs.begin_trial(LEAST_TRIAL, NOW)
    for _ in range(TRIAL_BATCHES):
        assert costs.pays(LEAST_TRIAL)
        costs.add_batch(100, 10.0, NOW)
    assert not costs.pays(100)
    assert not costs.begin_trial(100, NOW + TRIAL_EVERY_S)
    assert costs.begin_trial(100, NOW + TRIAL_EVERY_S + 1)


def test_a_stream_that_is_no_bottleneck_gets_no_trial() -> None:
    costs = PublishCosts()
    costs.add_singles(1_000, 1_000 * CHEAP_S / 2, NOW)
    assert not costs.begin_trial(1_000, NOW)


def test_what_goes_in_batches_is_tried_one_by_one_after_a_while() -> None:
    costs = measured(0.0025, 0.010, 0.00002)
    assert not costs.is_single_due(100, NOW + TRIAL_EVERY_S)
    assert costs.is_single_due(100, NOW + TRIAL_EVERY_S + 1)
    assert not costs.is_single_due(LEAST_TRIAL - 1, NOW + TRIAL_EVERY_S + 1)


def test_few_messages_say_nothing_of_the_price_of_many() -> None:
    costs = PublishCosts()
    for messages in range(1, LEAST_TRIAL):
        costs.add_singles(messages, 1.0, NOW)
    assert costs.each_s == 0.0


def test_a_hiccup_of_the_disk_counts_at_most_fourfold() -> None:
    costs = measured(each_s=0.0025, batch_s=0.010, in_batch_s=0.00002)
    costs.add_singles(100, 60.0, NOW)
    assert costs.each_s < 4 * 0.0025
    costs.add_batch(100, 60.0, NOW)
    assert costs.batch.predict(100) < 4 * 0.012
    before = costs.lone_s
    costs.add_singles(1, 60.0, NOW)
    assert costs.lone_s < 1.5 * before


def test_who_waits_alone_waits_for_a_tenth_of_a_publish_ack() -> None:
    costs = PublishCosts()
    assert costs.hold_s == 0.0
    costs.add_singles(1, 0.005, NOW)
    assert costs.hold_s == pytest.approx(0.0005)


def test_a_line_through_one_count_is_flat_and_never_below_a_tenth() -> None:
    line = CostLine()
    line.add(100, 1.0)
    assert [line.predict(count) for count in (1, 100, 1_000)] == pytest.approx([1.0] * 3)
    line.add(10, 0.05)
    assert line.predict(1) >= 0.05


def test_a_disk_that_changes_is_followed() -> None:
    costs = measured(each_s=0.0025, batch_s=0.010, in_batch_s=0.00002)
    for _ in range(60):
        costs.add_singles(100, 100 * 0.00005, NOW)
        costs.add_batch(100, 0.012, NOW)
    assert not costs.is_dear
