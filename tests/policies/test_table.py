"""Finding policies."""

from router.policies.model import PolicyTable
from tests.support.policy import a_policy


def test_a_tenants_own_policy_comes_before_the_shared_one() -> None:
    own, shared = a_policy(), a_policy(tenant="_shared")
    policy_table = PolicyTable({("acme", "default"): own, ("_shared", "default"): shared})
    assert policy_table.find("acme", "default") is own
    assert policy_table.find("other", "default") is shared
    assert policy_table.find("acme", "missing") is None
    assert (policy_table.has_tenant("acme"), policy_table.has_tenant("other")) == (True, False)


def test_a_tenants_own_policy_says_whether_its_requests_go_first_else_the_shared_one() -> None:
    own, shared = a_policy(), a_policy(tenant="_shared", priority="high")
    policy_table = PolicyTable({("acme", "default"): own, ("_shared", "default"): shared})
    assert [
        policy_table.is_high(tenant, policy)
        for tenant in ("acme", "other")
        for policy in ("default", "missing")
    ] == [*(False, False), *(True, False)]
    policy_table.replace({("_shared", "default"): a_policy(tenant="_shared", priority="normal")})
    assert not policy_table.is_high("other", "default")


def test_tenant_and_policy_are_never_run_together() -> None:
    policy_table = PolicyTable({("a.b", "c"): a_policy(tenant="a.b", policy_id="c")})
    assert policy_table.find("a", "b.c") is None


def test_the_table_is_swapped_whole_and_is_a_copy_of_its_own() -> None:
    first, second = a_policy(), a_policy(version=2)
    given = {("acme", "default"): first}
    policy_table = PolicyTable(given)
    given.clear()
    before = policy_table.get_all()
    policy_table.replace({("acme", "default"): second})
    assert (before[("acme", "default")], policy_table.find("acme", "default")) == (first, second)
