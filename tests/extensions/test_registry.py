"""Which service answers a call: the first version that fits, else the default, else none; and of
its instances the drawn one.
"""

from collections import Counter

from router.extensions.model import parse_entry
from tests.support.registry import a_registry, a_version, an_entry, find_route, find_subject

DRAWN = "abbcbbbbcdbabdda"
V1, V2, V3 = (f"beamline.ext.validate.guard.{version}" for version in ("v1", "v2", "v3"))


def test_an_entry_without_versions_is_found_for_every_tenant() -> None:
    route = find_route(a_registry(an_entry(timeout_ms=70, retry=2, config={"a": 1})))
    assert route is not None
    assert (route.extension_id, route.kind, route.version, route.subject) == (
        "guard",
        "validator",
        "v1",
        V1,
    )
    assert (route.timeout_ms, route.retry, route.config) == (70, 2, {"a": 1})


def test_who_is_unknown_disabled_or_of_another_kind_is_not_found() -> None:
    assert find_route(a_registry()) is None
    assert find_route(a_registry(an_entry(enabled=False))) is None
    assert find_route(a_registry(an_entry()), kind="pre") is None


def test_the_first_version_that_fits_is_taken_in_their_order() -> None:
    registry = a_registry(
        an_entry(
            versions=[
                a_version("v3", rules={"tenant_id": ["acme"], "policy_id": ["canary"]}),
                a_version("v2", rules={"tenant_id": ["acme"]}),
                a_version("v1"),
            ]
        )
    )
    assert find_subject(registry, tenant="acme", policy="canary") == V3
    assert find_subject(registry, tenant="acme", policy="default") == V2
    assert find_subject(registry, tenant="other", policy="canary") == V1


def test_the_default_is_for_those_whom_no_version_fits_wherever_it_stands() -> None:
    registry = a_registry(
        an_entry(
            versions=[
                a_version("v1", default=True, rules={}),
                a_version("v2", rules={"tenant_id": ["acme"]}),
            ]
        )
    )
    assert find_subject(registry, tenant="acme") == V2
    assert find_subject(registry, tenant="other") == V1


def test_a_default_with_rules_is_also_a_version_in_its_place() -> None:
    first = a_version("v1", default=True, rules={"tenant_id": ["acme"]})
    registry = a_registry(
        an_entry(versions=[first, a_version("v2", rules={"tenant_id": ["acme", "other"]})])
    )
    assert [find_subject(registry, tenant=tenant) for tenant in ("acme", "other", "third")] == [
        V1,
        V2,
        V1,
    ]


def test_without_a_version_that_fits_and_without_a_default_nothing_is_found() -> None:
    assert (
        find_route(
            a_registry(an_entry(versions=[a_version("v2", rules={"tenant_id": ["acme"]})])),
            tenant="other",
        )
        is None
    )


def test_an_entrys_own_subject_counts_for_nothing_beside_versions() -> None:
    assert find_subject(a_registry(an_entry(subject=V1, versions=[a_version("v2")]))) == V2


def test_a_version_that_is_switched_off_is_passed_over_even_as_the_default() -> None:
    off = a_version("v1", enabled=False, default=True)
    assert find_subject(a_registry(an_entry(versions=[off, a_version("v2")]))) == V2
    assert find_route(a_registry(an_entry(versions=[off]))) is None


def test_an_environment_is_asked_for_by_name() -> None:
    registry = a_registry(
        an_entry(
            versions=[
                a_version("v2", rules={"environment": ["staging"]}),
                a_version("v1", default=True),
            ]
        )
    )
    assert find_subject(registry, environment="staging") == V2
    assert find_subject(registry, environment="prod") == V1
    assert find_subject(registry) == V1


def test_instances_are_drawn_by_weight_and_the_same_key_draws_the_same() -> None:
    registry = a_registry(
        an_entry(
            versions=[a_version(instances=[{"id": "a", "weight": 30}, {"id": "b", "weight": 10}])]
        )
    )
    drawn = [find_subject(registry, key=f"r-{n}") for n in range(4000)]
    assert drawn == [find_subject(registry, key=f"r-{n}") for n in range(4000)]
    counts = Counter(drawn)
    assert set(counts) == {f"{V1}.a", f"{V1}.b"}
    assert 0.22 < counts[f"{V1}.b"] / 4000 < 0.28


def test_the_draw_is_the_same_in_every_process_for_ever() -> None:
    registry = a_registry(an_entry(instances=[{"id": name, "weight": 1} for name in "abcd"]))
    drawn = "".join(str(find_subject(registry, key=f"r-{n}"))[-1] for n in range(16))
    assert drawn == DRAWN


def test_an_instance_that_is_switched_off_gets_nothing() -> None:
    registry = a_registry(an_entry(instances=[{"id": "a", "enabled": False}, {"id": "b"}]))
    assert {find_subject(registry, key=str(n)) for n in range(50)} == {f"{V1}.b"}


def test_a_version_without_an_instance_that_is_on_is_off() -> None:
    dark = a_version("v1", instances=[{"id": "a", "enabled": False}])
    assert find_subject(a_registry(an_entry(versions=[dark, a_version("v2")]))) == V2


def test_a_swap_is_whole_and_disabled_entries_are_still_listed() -> None:
    registry = a_registry(an_entry("one"), an_entry("two"))
    before = registry.get_all()
    registry.replace([parse_entry(an_entry("two", enabled=False))])
    assert [find_route(registry, "one"), find_route(registry, "two")] == [None, None]
    assert (set(registry.get_all()), set(before)) == ({"two"}, {"one", "two"})


def test_a_lookup_makes_no_new_route_until_its_own_entry_changes() -> None:
    kept, changed = an_entry("one", instances=[{"id": "a"}, {"id": "b"}]), an_entry("two")
    registry = a_registry(kept, changed)
    route = find_route(registry, "one", key="k")
    registry.replace([registry.get_all()["one"], parse_entry({**changed, "timeout_ms": 70})])
    assert find_route(registry, "one", key="k") is route
    new = find_route(registry, "two")
    assert new is not None
    assert new.timeout_ms == 70
