"""A load is what its plan says, and its truth is the exact count of its messages."""

import pytest

from router.core.errors import Misconfigured
from router.lake.generate import Load, LoadPlan
from tests.support.lake_load import COSTS, COUNTS, as_event, id_of, read_plainly

PLAN = LoadPlan(
    events=6_000, duplicates=0.05, late=0.02, malformed=0.01, conflicts=7, tenants=4, seed=3
)


def a_load(plan: LoadPlan = PLAN) -> tuple[Load, list[tuple[str, bytes]]]:
    load = Load(plan)
    return load, [message for chunk in load.make_chunks() for message in chunk]


def test_the_truth_is_what_a_plain_reader_counts() -> None:
    load, messages = a_load()
    cells, counts = read_plainly(body for _, body in messages)
    told = load.truth.to_json()
    assert {name: told[name] for name in counts} == dict(counts)
    names = ("day", "tenant_id", "provider_id", "event_type", "status", "model")
    rows = {tuple(str(row[name]) for name in names): row for row in load.truth.make_rows()}
    assert rows.keys() == cells.keys()
    for key, cell in cells.items():
        row, latencies = rows[key], cell["latencies"]
        assert {name: row[name] for name in COSTS} == {name: f"{cell[name]:.9f}" for name in COSTS}
        assert {name: row[name] for name in COUNTS} == {name: cell[name] for name in COUNTS}
        assert (row["count"], row["latency_sum_ms"]) == (len(latencies), sum(latencies))
        assert (row["latency_min_ms"], row["latency_max_ms"]) == (
            min(latencies, default=None),
            max(latencies, default=None),
        )
    assert all(any(cell[name] for cell in cells.values()) for name in (*COSTS, *COUNTS))


def test_each_kind_is_there_exactly_as_often_as_planned() -> None:
    load, messages = a_load()
    told = load.truth.to_json()
    assert len(messages) == 6_000
    assert {name: told[name] for name in ("duplicates", "late", "malformed", "conflicts", "adjustments", "uncorrelated")} == {
        "duplicates": 300, "late": 120, "malformed": 60, "conflicts": 7, "adjustments": 30, "uncorrelated": 30,
    }  # fmt: skip


def test_a_good_message_s_id_is_the_identity_of_its_body() -> None:
    _, messages = a_load()
    good = [
        (message_id, as_event(body))
        for message_id, body in messages
        if message_id.startswith("usage:")
    ]
    assert {"event_id" in body for _, body in good if body is not None} == {True, False}
    assert len(good) == 6_000 - 300 - 60 - 7
    assert all(body is not None and message_id == id_of(body) for message_id, body in good)


def test_no_two_messages_share_a_message_id_so_the_broker_drops_none() -> None:
    _, messages = a_load()
    assert len({message_id for message_id, _ in messages}) == len(messages)


def test_the_same_plan_gives_the_same_bytes_and_another_seed_others() -> None:
    assert a_load()[1] == a_load()[1]
    other = LoadPlan(
        events=6_000, duplicates=0.05, late=0.02, malformed=0.01, conflicts=7, tenants=4, seed=4
    )
    assert a_load(other)[1][0] != a_load()[1][0]


def test_costs_come_also_longer_than_nine_decimals_and_with_an_exponent() -> None:
    _, messages = a_load()
    bodies = b"\n".join(body for _, body in messages)
    assert b"e-07," in bodies
    texts = [
        body.split(b'"cost":')[1].split(b",")[0]
        for message_id, body in messages
        if message_id.startswith("usage:")
    ]
    assert any(len(text.partition(b".")[2]) > 12 for text in texts if b"e" not in text)


def test_some_ids_need_escapes() -> None:
    _, messages = a_load()
    assert any(rb"\"" in body and rb"\\" in body for _, body in messages)


@pytest.mark.parametrize(
    ("setting", "plan"),
    [("duplicates", {"duplicates": 1.5}), ("events", {"events": 0}), ("conflicts", {"conflicts": -1}), ("days", {"days": 0}),
     ("leave no event", {"duplicates": 0.5, "late": 0.5})],
)  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(setting: str, plan: dict[str, float]) -> None:
    with pytest.raises(Misconfigured, match=setting):
        LoadPlan(**{"events": 100, **plan})
