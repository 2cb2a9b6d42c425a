"""Who is started again, who is not, when a failure climbs, and how a tree ends."""

import asyncio

import pytest

from router.core.errors import Misconfigured
from router.process.supervision import (
    Child,
    Intensity,
    Restart,
    Strategy,
    SupervisionFailed,
    Supervisor,
    supervise,
)
from tests.support.observability import capture_log
from tests.support.supervision import EventLog, FakeChild, run_tree

MANY = Intensity(restarts=100, seconds=60)


async def test_children_start_in_order_and_stop_in_reverse() -> None:
    diary = EventLog()
    actors = [FakeChild(name, diary) for name in "abc"]
    async with run_tree(Supervisor("root", tuple(actor.child() for actor in actors))):
        await diary.until("c starts")
    assert diary.lines == ["a starts", "b starts", "c starts", "c stops", "b stops", "a stops"]


@pytest.mark.parametrize(
    ("restart", "after_crash", "after_end"),
    [
        (Restart.PERMANENT, True, True),
        (Restart.TRANSIENT, True, False),
        (Restart.TEMPORARY, False, False),
    ],
)
async def test_the_rule_says_who_is_started_again(
    restart: Restart, after_crash: bool, after_end: bool
) -> None:
    async def starts_again(end: str) -> bool:
        diary = EventLog()
        subject, witness = FakeChild("subject", diary), FakeChild("witness", diary)
        async with run_tree(
            Supervisor("root", (subject.child(restart), witness.child()), intensity=MANY)
        ):
            await diary.until("witness starts")
            getattr(subject, end)()
            await asyncio.sleep(0)
            witness.crash()  # tended after the subject, so the subject's fate is known by then
            await diary.until("witness starts", 2)
        return diary.lines.count("subject starts") == 2

    assert await starts_again("crash") is after_crash
    assert await starts_again("finish") is after_end


async def test_a_cancelled_task_inside_a_child_is_a_crash_of_the_child_not_a_shutdown() -> None:
    diary = EventLog()
    subject = FakeChild("subject", diary)
    async with run_tree(Supervisor("root", (subject.child(Restart.TRANSIENT),))) as tree:
        await diary.until("subject starts")
        subject.lose_a_task()
        await diary.until("subject starts", 2)
        assert not tree.done()


async def test_one_for_one_leaves_the_others_alone() -> None:
    diary = EventLog()
    a, b = FakeChild("a", diary), FakeChild("b", diary)
    async with run_tree(Supervisor("root", (a.child(), b.child()))):
        await diary.until("b starts")
        a.crash()
        await diary.until("a starts", 2)
        assert diary.lines == ["a starts", "b starts", "a starts"]


async def test_rest_for_one_stops_and_starts_those_after_it_only() -> None:
    diary = EventLog()
    a, b, c, d = (FakeChild(name, diary) for name in "abcd")
    children = (a.child(), b.child(), c.child(), d.child(Restart.TEMPORARY))
    async with run_tree(Supervisor("root", children, Strategy.REST_FOR_ONE)):
        await diary.until("d starts")
        diary.lines.clear()
        b.crash()
        await diary.until("c starts")
        a.crash()
        await diary.until("c starts", 2)
    first, second = (
        ["d stops", "c stops", "b starts", "c starts"],
        ["c stops", "b stops", "a starts", "b starts", "c starts"],
    )
    assert diary.lines[:9] == first + second  # d is temporary: it never came back


async def test_the_last_restart_allowed_is_done_and_the_next_one_climbs() -> None:
    diary = EventLog()
    a, b = FakeChild("a", diary), FakeChild("b", diary)
    tree = Supervisor("root", (a.child(), b.child()), intensity=Intensity(restarts=2, seconds=60))
    async with run_tree(tree) as life:
        for number in (1, 2, 3):
            await diary.until("a starts", number)
            a.crash()
        with pytest.raises(SupervisionFailed, match="root gave up: a ended too often") as failed:
            await life
    assert isinstance(failed.value.__cause__, ValueError)
    assert diary.lines[-1] == "b stops"


async def test_restarts_outside_the_window_are_forgiven() -> None:
    now = [0.0]
    diary = EventLog()
    subject = FakeChild("subject", diary)
    tree = Supervisor("root", (subject.child(),), intensity=Intensity(restarts=1, seconds=10))
    async with run_tree(tree, clock=lambda: now[0]):
        for number in range(1, 6):
            await diary.until("subject starts", number)
            now[0] += 10
            subject.crash()
        await diary.until("subject starts", 6)


async def test_restarts_wait_longer_the_more_there_are() -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    diary = EventLog()
    subject = FakeChild("subject", diary)
    async with run_tree(Supervisor("root", (subject.child(),), intensity=MANY), pause=pause):
        for number in range(1, 9):
            await diary.until("subject starts", number)
            subject.crash()
        await diary.until("subject starts", 9)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.01, 1.0)


async def test_a_supervisor_that_gave_up_is_restarted_whole_by_its_own_supervisor() -> None:
    diary = EventLog()
    a, b, outside = FakeChild("a", diary), FakeChild("b", diary), FakeChild("outside", diary)
    inner = Supervisor("inner", (a.child(), b.child()), intensity=Intensity(restarts=0, seconds=60))
    async with run_tree(Supervisor("root", (outside.child(), inner))):
        await diary.until("b starts")
        a.crash()
        await diary.until("b starts", 2)
        assert diary.lines == [
            "outside starts",
            "a starts",
            "b starts",
            "b stops",
            "a starts",
            "b starts",
        ]


async def test_nested_trees_stop_in_reverse_too() -> None:
    diary = EventLog()
    first, deep, last = (
        FakeChild("first", diary),
        FakeChild("deep", diary),
        FakeChild("last", diary),
    )
    async with run_tree(
        Supervisor("root", (first.child(), Supervisor("inner", (deep.child(),)), last.child()))
    ):
        await diary.until("deep starts")
        await diary.until("last starts")
    assert diary.lines[-3:] == ["last stops", "deep stops", "first stops"]


async def test_a_tree_whose_children_are_all_done_stays_until_it_is_told_to_go() -> None:
    diary = EventLog()
    subject = FakeChild("subject", diary)
    async with run_tree(Supervisor("root", (subject.child(Restart.TEMPORARY),))) as tree:
        await diary.until("subject starts")
        subject.finish()
        done, _ = await asyncio.wait({tree}, timeout=0.05)
        assert not done


async def test_a_child_that_does_not_stop_is_given_up_at_its_deadline_and_the_others_still_stop() -> (
    None
):
    diary = EventLog()
    release = asyncio.Event()

    async def deaf() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                diary.write("deaf hears")

    polite = FakeChild("polite", diary)
    with capture_log() as lines:
        async with run_tree(
            Supervisor("root", (polite.child(), Child("deaf", deaf, shutdown_s=0.01)))
        ):
            await diary.until("polite starts")
    release.set()
    assert diary.lines == ["polite starts", "deaf hears", "deaf hears", "polite stops"]
    assert [(line["event"], line["child"]) for line in lines.all()] == [
        ("child.stuck", "root/deaf")
    ]


async def test_told_twice_to_stop_it_cancels_all_at_once_and_goes() -> None:
    diary = EventLog()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            diary.write("slow cleans up")
            await asyncio.Event().wait()

    other = FakeChild("other", diary)
    async with run_tree(
        Supervisor("root", (other.child(), Child("slow", slow, shutdown_s=60)))
    ) as tree:
        await diary.until("other starts")
        await asyncio.sleep(0)
        tree.cancel()
        await diary.until("slow cleans up")
        tree.cancel()
        await asyncio.wait({tree})
        await diary.until("other stops")


async def test_a_crash_is_logged_once_with_its_traceback_even_when_it_climbs() -> None:
    diary = EventLog()
    subject = FakeChild("subject", diary)
    inner = Supervisor("inner", (subject.child(),), intensity=Intensity(restarts=0))
    with capture_log("error") as lines:
        async with run_tree(Supervisor("root", (inner,), intensity=Intensity(restarts=0))) as tree:
            await diary.until("subject starts")
            subject.crash()
            with pytest.raises(SupervisionFailed):
                await tree
    logged = lines.all()
    assert [line["event"] for line in logged] == [
        "child.crashed",
        "supervisor.gave_up",
        "child.crashed",
        "supervisor.gave_up",
    ]
    assert ["subject is broken" in str(line.get("exception")) for line in logged] == [
        True,
        False,
        False,
        False,
    ]
    assert logged[0]["child"] == "root/inner/subject"


async def test_a_wrong_setting_climbs_at_once_for_no_restart_mends_it() -> None:
    diary = EventLog()
    subject, other = FakeChild("subject", diary), FakeChild("other", diary)
    tree = Supervisor(
        "root",
        (other.child(), Supervisor("inner", (subject.child(),), intensity=MANY)),
        intensity=MANY,
    )
    async with run_tree(tree) as life:
        await diary.until("subject starts")
        subject.crash(Misconfigured("http_port", "is taken"))
        with pytest.raises(Misconfigured):
            await life
    assert diary.lines == ["other starts", "subject starts", "other stops"]


async def test_no_task_outlives_its_tree() -> None:
    diary = EventLog()
    before = asyncio.all_tasks()
    actors = [FakeChild(name, diary) for name in "ab"]
    async with run_tree(
        Supervisor("root", (Supervisor("inner", (actors[0].child(),)), actors[1].child()))
    ):
        await diary.until("a starts")
    assert asyncio.all_tasks() == before


async def test_a_child_that_fails_before_it_waits_is_a_crash_like_any_other() -> None:
    def broken() -> None:
        raise RuntimeError("no coroutine at all")

    with pytest.raises(SupervisionFailed):
        await supervise(
            Supervisor("root", (Child("broken", broken),), intensity=Intensity(restarts=0))
        )  # type: ignore[arg-type]
