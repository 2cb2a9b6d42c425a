"""Finding policies."""

from router.routing.policy import PolicyTable
from tests.support.policy import a_policy


def test_a_tenants_own_policy_comes_before_the_shared_one() -> None:
    own, shared = a_policy(), a_policy(tenant="_shared")
    shelf = PolicyTable({("acme", "default"): own, ("_shared", "default"): shared})
    assert shelf.find("acme", "default") is own
    assert shelf.find("other", "default") is shared
    assert shelf.find("acme", "missing") is None


def test_tenant_and_policy_are_never_run_together() -> None:
    shelf = PolicyTable({("a.b", "c"): a_policy(tenant="a.b", policy_id="c")})
    assert shelf.find("a", "b.c") is None


def test_the_table_is_swapped_whole_and_is_a_copy_of_its_own() -> None:
    first, second = a_policy(), a_policy(version=2)
    given = {("acme", "default"): first}
    shelf = PolicyTable(given)
    given.clear()
    before = shelf.get_all()
    shelf.replace({("acme", "default"): second})
    assert (before[("acme", "default")], shelf.find("acme", "default")) == (first, second)
