"""Who is alive, and who fell silent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.heartbeat import Heartbeat
from router.work.model import Liveness, WorkerChange, WorkerCondition
from router.work.model.worker_liveness import EARLY_S, PROVEN_S


def a_beat(worker: str = "w-1", status: str = "idle", **fields: object) -> Heartbeat:
    return Heartbeat(worker_id=worker, status=status, timestamp=0, **fields)


def words(*changes: WorkerChange | None) -> list[tuple[str, str | None, str]]:
    told = [change for change in changes if change is not None]
    return [
        (c.worker.beat.worker_id, c.was.value if c.was else None, c.condition.value) for c in told
    ]


@pytest.mark.parametrize(
    ("interval_ms", "silent_after"), [(1000, 3.0), (None, 15.0), (20_000, 60.0)]
)
def test_a_worker_is_silent_after_three_of_its_intervals(
    interval_ms: int | None, silent_after: float
) -> None:
    liveness = Liveness()
    liveness.on_heartbeat(a_beat(interval_ms=interval_ms), 100.0)
    assert not liveness.find_silent(100.0 + silent_after - 0.01)
    assert words(*liveness.find_silent(100.0 + silent_after)) == [("w-1", "idle", "silent")]


def test_each_change_is_told_once() -> None:
    liveness = Liveness()
    assert words(liveness.on_heartbeat(a_beat(), 0)) == [("w-1", None, "idle")]
    assert words(liveness.on_heartbeat(a_beat(status="busy"), 1)) == []
    assert words(*liveness.find_silent(16), *liveness.find_silent(17)) == [
        ("w-1", "busy", "silent")
    ]
    assert words(liveness.on_heartbeat(a_beat(), 18), liveness.on_heartbeat(a_beat(), 19)) == [
        ("w-1", "silent", "idle")
    ]
    assert words(*liveness.find_silent(40)) == [("w-1", "idle", "silent")]


def test_a_worker_that_stopped_is_not_silent() -> None:
    liveness = Liveness()
    liveness.on_heartbeat(a_beat(), 0)
    assert words(liveness.on_heartbeat(a_beat(status="stopped"), 1)) == [("w-1", "idle", "stopped")]
    assert not liveness.find_silent(100)
    assert (liveness.count_alive(100), liveness.count_silent(100)) == (0, 0)


def test_who_is_silent_is_counted_until_heard_again_or_forgotten() -> None:
    liveness = Liveness(forget_s=3600)
    liveness.on_heartbeat(a_beat(), 0)
    assert [liveness.count_silent(now) for now in (14, 15)] == [0, 1]
    liveness.on_heartbeat(a_beat(), 20)
    assert liveness.count_silent(20) == 0
    liveness.find_silent(20 + 15 + 3600)
    assert liveness.count_silent(4000) == 0


def test_an_unknown_worker_that_says_good_bye_is_not_remembered() -> None:
    liveness = Liveness()
    assert liveness.on_heartbeat(a_beat(status="stopped"), 0) is None
    assert len(liveness) == 0


def test_people_see_how_everyone_stands() -> None:
    liveness = Liveness()
    for at, beat in ((0, a_beat("old")), (90, a_beat("a", "busy")), (90, a_beat("b", "draining"))):
        liveness.on_heartbeat(beat, at)
    seen = {worker.beat.worker_id: condition for worker, condition in liveness.list_workers(100)}
    assert seen == {
        "old": WorkerCondition.SILENT,
        "a": WorkerCondition.BUSY,
        "b": WorkerCondition.DRAINING,
    }
    assert liveness.count_alive(100) == 2


def test_workers_of_two_tenants_may_be_called_alike() -> None:
    liveness = Liveness()
    liveness.on_heartbeat(a_beat(tenant_id="a"), 0)
    liveness.on_heartbeat(a_beat(tenant_id="b"), 0)
    assert len(liveness) == 2


def test_memory_is_bounded_and_the_living_are_never_pushed_out() -> None:
    liveness = Liveness(limit=2)
    for name in ("a", "b", "c"):
        liveness.on_heartbeat(a_beat(name), 0)
    assert (len(liveness), liveness.refused) == (2, 1)
    assert words(liveness.on_heartbeat(a_beat("c"), 20)) == [("c", None, "idle")]
    assert len(liveness) == 1


def test_who_has_been_gone_for_long_is_forgotten_and_told_before() -> None:
    liveness = Liveness(forget_s=60)
    liveness.on_heartbeat(a_beat(), 0)
    assert len(liveness.find_silent(15)) == 1
    assert len(liveness.find_silent(75)) == 0
    assert len(liveness) == 0


def test_one_group_gets_half_of_the_places_and_another_finds_one() -> None:
    liveness = Liveness(limit=10)
    for number in range(20):
        liveness.on_heartbeat(a_beat(f"ghost-{number}"), 0)
    assert (len(liveness), liveness.refused) == (6, 14)
    assert words(liveness.on_heartbeat(a_beat("w-1", tenant_id="acme"), 0)) == [
        ("w-1", None, "idle")
    ]


def test_who_was_heard_only_once_gives_way_to_a_newcomer_and_who_was_heard_again_does_not() -> None:
    liveness = Liveness(limit=4)
    for name in ("honest", "ghost-1", "ghost-2"):
        liveness.on_heartbeat(a_beat(name, interval_ms=3_600_000), 0)
    liveness.on_heartbeat(a_beat("ghost-1", interval_ms=3_600_000), PROVEN_S - 0.01)
    liveness.on_heartbeat(a_beat("honest", interval_ms=3_600_000), PROVEN_S)
    assert words(
        liveness.on_heartbeat(a_beat("new-1"), 2), liveness.on_heartbeat(a_beat("new-2"), 2)
    ) == [("new-1", None, "idle"), ("new-2", None, "idle")]
    assert {worker.beat.worker_id for worker, _ in liveness.list_workers(2)} == {
        "honest",
        "new-1",
        "new-2",
    }
    # those that came a moment ago may yet be heard again
    assert liveness.on_heartbeat(a_beat("new-3"), 2) is None


def test_a_promise_to_be_heard_once_an_hour_keeps_no_place_that_is_wanted() -> None:
    liveness = Liveness(limit=2)
    for at in (0, 2):
        for name in ("ghost-1", "ghost-2"):
            liveness.on_heartbeat(a_beat(name, interval_ms=3_600_000), at)
    assert liveness.on_heartbeat(a_beat("new"), 1 + EARLY_S) is None
    assert words(liveness.on_heartbeat(a_beat("new"), 2 + EARLY_S)) == [("new", None, "idle")]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from([None, "a", "b"]),
            st.sampled_from(["idle", "stopped"]),
        ),
        max_size=300,
    )
)
def test_places_are_counted_right_whatever_comes(beats: list[tuple[int, str | None, str]]) -> None:
    liveness = Liveness(limit=8, forget_s=30)
    for at, (number, tenant, status) in enumerate(beats):
        liveness.on_heartbeat(a_beat(f"w-{number}", status, tenant_id=tenant), at)
        liveness.find_silent(at)
        known = [worker.key for worker, _ in liveness.list_workers(at)]
        places = liveness._admission
        assert (len(known) <= 8, sorted(places._groups, key=str)) == (True, sorted(known, key=str))
        assert sum(places._held.values()) == len(known)
        assert {key for fresh in places._fresh.values() for key in fresh} <= set(known)
