"""Which tenants take turns of their own: who is known, who earns it, and that made-up ids gain
nothing.
"""

from router.decide.model.tenant_places import (
    EARNED_AT_ONCE,
    MAX_CANDIDATES,
    MAX_EARNED,
    NOT_KNOWN,
    SECONDS_TO_EARN,
    SPAN_S,
    PlacesRecord,
    TenantPlaces,
)


class Bench:
    def __init__(self) -> None:
        self.now = 100.0 * SPAN_S
        self.places = TenantPlaces(
            lambda tenant: tenant == "owner", frozenset({"named"}), clock=lambda: self.now
        )

    def answer(self, *tenants: str, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.places.answered.update(tenants)
            self.places.look()

    def find(self, *tenants: str) -> list[str]:
        return [self.places.find(tenant) for tenant in tenants]


def test_a_tenant_with_a_policy_of_its_own_and_one_that_is_named_are_known_at_once() -> None:
    bench = Bench()
    assert bench.find("owner", "named", "other") == ["owner", "named", NOT_KNOWN]


def test_a_tenant_that_was_answered_in_several_seconds_has_a_place_of_its_own() -> None:
    bench = Bench()
    bench.answer("shared", seconds=2)
    bench.answer(seconds=100)  # it asks seldom
    assert bench.find("shared") == [NOT_KNOWN]
    bench.answer("shared")
    assert bench.find("shared", "other") == ["shared", NOT_KNOWN]


def test_thousands_of_made_up_tenants_share_one_place_during_overload_and_after_it() -> None:
    bench = Bench()
    bench.answer("quiet", seconds=SECONDS_TO_EARN)
    made_up = [f"made-up-{number}" for number in range(3_000)]
    bench.places.is_calm = False
    bench.answer(*made_up, "quiet", seconds=20)
    assert set(bench.find(*made_up)) == {NOT_KNOWN}
    assert bench.find("quiet") == ["quiet"]
    bench.places.is_calm = True
    bench.answer(*made_up, seconds=3)  # the first of them may be of the overload
    assert set(bench.find(*made_up)) == {NOT_KNOWN}


def test_few_places_are_earned_in_a_second_however_many_ask() -> None:
    bench = Bench()
    bench.answer(*(f"made-up-{number}" for number in range(1_000)), seconds=SECONDS_TO_EARN + 1)
    assert len(bench.places.list_earned()) == 2 * 8


def test_made_up_ids_push_no_tenant_out_that_has_earned_its_place() -> None:
    bench = Bench()
    bench.answer("quiet", seconds=SECONDS_TO_EARN)
    for number in range(MAX_EARNED // EARNED_AT_ONCE + 10):
        names = [f"made-up-{number}-{which}" for which in range(EARNED_AT_ONCE)]
        bench.answer(*names, seconds=SECONDS_TO_EARN)
    assert len(bench.places.list_earned()) == MAX_EARNED
    assert bench.find("quiet", *names) == ["quiet", *[NOT_KNOWN] * EARNED_AT_ONCE]


def test_a_place_that_was_not_used_for_a_day_goes_to_another_when_all_are_taken() -> None:
    bench = Bench()
    bench.places.merge(PlacesRecord({str(number): 100 for number in range(MAX_EARNED)}))
    bench.now += 24 * 3600 - 1
    bench.answer("new", seconds=SECONDS_TO_EARN)
    assert bench.find("new") == [NOT_KNOWN]
    bench.now += 1
    bench.answer(*map(str, range(1, MAX_EARNED)))
    bench.answer("new", "newer", seconds=SECONDS_TO_EARN)
    assert len(bench.places.list_earned()) == MAX_EARNED
    assert bench.find("0", "1") == [NOT_KNOWN, "1"]
    assert sorted(bench.find("new", "newer")) in ([NOT_KNOWN, "new"], [NOT_KNOWN, "newer"])


def test_names_that_were_answered_once_make_room_and_one_that_comes_back_earns_its_place() -> None:
    bench = Bench()
    bench.answer("seldom", seconds=2)
    for number in range(3 * MAX_CANDIDATES):
        bench.places.answered.add(f"made-up-{number}")
        if number % 1_000 == 0:
            bench.places.look()
    bench.places.look()
    assert len(bench.places._candidates) <= MAX_CANDIDATES
    bench.answer("seldom")
    assert bench.find("seldom") == ["seldom"]


def test_what_is_stored_is_known_after_a_restart_and_a_time_ahead_is_not_believed() -> None:
    bench, other = Bench(), Bench()
    bench.answer("quiet", seconds=SECONDS_TO_EARN)
    record = bench.places.build_record()
    other.places.merge(record)
    assert other.find("quiet", "other") == ["quiet", NOT_KNOWN]
    other.places.merge(PlacesRecord({"ahead": 10**9, "quiet": 10**9}))
    assert set(other.places.list_earned().values()) == {100}


def test_two_full_lists_that_differ_do_not_replace_each_other_for_ever() -> None:
    bench = Bench()
    bench.places.merge(PlacesRecord({f"a{number}": 100 for number in range(MAX_EARNED)}))
    stored = PlacesRecord({f"b{number}": 100 for number in range(MAX_EARNED)})
    bench.places.merge(stored)
    assert not bench.places.is_to_be_stored(stored)
    assert not Bench().places.is_to_be_stored(PlacesRecord())
    assert bench.places.is_to_be_stored(PlacesRecord())  # the bucket was made anew
    bench.now += SPAN_S
    bench.answer("a1")
    assert bench.places.is_to_be_stored(stored)


def test_instances_that_know_different_tenants_know_all_after_they_have_met() -> None:
    one, two = Bench(), Bench()
    one.answer("a", seconds=SECONDS_TO_EARN)
    two.answer("b", seconds=SECONDS_TO_EARN)
    two.places.merge(one.places.build_record())
    one.places.merge(two.places.build_record())
    assert one.find("a", "b") == two.find("a", "b") == ["a", "b"]
