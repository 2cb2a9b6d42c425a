"""Who is alive, and who fell silent."""

import pytest

from router.contracts.heartbeat import Heartbeat
from router.workers import Change, Condition, Liveness


def a_beat(worker: str = "w-1", status: str = "idle", **fields: object) -> Heartbeat:
    return Heartbeat(worker_id=worker, status=status, timestamp=0, **fields)


def words(*changes: Change | None) -> list[tuple[str, str | None, str]]:
    told = [change for change in changes if change is not None]
    return [(c.worker.beat.worker_id, c.was.value if c.was else None, c.condition.value) for c in told]


@pytest.mark.parametrize(("interval_ms", "silent_after"), [(1000, 3.0), (None, 15.0), (20_000, 60.0)])
def test_a_worker_is_silent_after_three_of_its_intervals(interval_ms: int | None, silent_after: float) -> None:
    liveness = Liveness()
    liveness.heard(a_beat(interval_ms=interval_ms), 100.0)
    assert not liveness.fallen_silent(100.0 + silent_after - 0.01)
    assert words(*liveness.fallen_silent(100.0 + silent_after)) == [("w-1", "idle", "silent")]


def test_each_change_is_told_once() -> None:
    liveness = Liveness()
    assert words(liveness.heard(a_beat(), 0)) == [("w-1", None, "idle")]
    assert words(liveness.heard(a_beat(status="busy"), 1)) == []
    assert words(*liveness.fallen_silent(16), *liveness.fallen_silent(17)) == [("w-1", "busy", "silent")]
    assert words(liveness.heard(a_beat(), 18), liveness.heard(a_beat(), 19)) == [("w-1", "silent", "idle")]
    assert words(*liveness.fallen_silent(40)) == [("w-1", "idle", "silent")]


def test_a_worker_that_stopped_is_not_silent() -> None:
    liveness = Liveness()
    liveness.heard(a_beat(), 0)
    assert words(liveness.heard(a_beat(status="stopped"), 1)) == [("w-1", "idle", "stopped")]
    assert not liveness.fallen_silent(100)
    assert (liveness.alive(100), liveness.silent(100)) == (0, 0)


def test_who_is_silent_is_counted_until_heard_again_or_forgotten() -> None:
    liveness = Liveness(forget_s=3600)
    liveness.heard(a_beat(), 0)
    assert [liveness.silent(now) for now in (14, 15)] == [0, 1]
    liveness.heard(a_beat(), 20)
    assert liveness.silent(20) == 0
    liveness.fallen_silent(20 + 15 + 3600)
    assert liveness.silent(4000) == 0


def test_a_stranger_that_says_good_bye_is_not_remembered() -> None:
    liveness = Liveness()
    assert liveness.heard(a_beat(status="stopped"), 0) is None
    assert len(liveness) == 0


def test_people_see_how_everyone_stands() -> None:
    liveness = Liveness()
    for at, beat in ((0, a_beat("old")), (90, a_beat("a", "busy")), (90, a_beat("b", "draining"))):
        liveness.heard(beat, at)
    seen = {worker.beat.worker_id: condition for worker, condition in liveness.workers(100)}
    assert seen == {"old": Condition.SILENT, "a": Condition.BUSY, "b": Condition.DRAINING}
    assert liveness.alive(100) == 2


def test_workers_of_two_tenants_may_be_called_alike() -> None:
    liveness = Liveness()
    liveness.heard(a_beat(tenant_id="a"), 0)
    liveness.heard(a_beat(tenant_id="b"), 0)
    assert len(liveness) == 2


def test_memory_is_bounded_and_the_living_are_never_pushed_out() -> None:
    liveness = Liveness(limit=2)
    for name in ("a", "b", "c"):
        liveness.heard(a_beat(name), 0)
    assert (len(liveness), liveness.refused) == (2, 1)
    assert words(liveness.heard(a_beat("c"), 20)) == [("c", None, "idle")]
    assert len(liveness) == 1


def test_who_has_been_gone_for_long_is_forgotten_and_told_before() -> None:
    liveness = Liveness(forget_s=60)
    liveness.heard(a_beat(), 0)
    assert len(liveness.fallen_silent(15)) == 1
    assert len(liveness.fallen_silent(75)) == 0
    assert len(liveness) == 0
