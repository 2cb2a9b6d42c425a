"""A provider that limits a tenant is left alone for a while, and then tried by one request a second
(docs/reference/extensions.md#rate-limited).
"""

import pytest

from router.contracts.failure_class import FailureClass
from router.policies.model import NO_STATES, Averages, ProviderTracker
from tests.support.breakers import SomeProviders
from tests.support.policy import a_policy, a_provider, decide

POLICY = a_policy(a_provider("openai"))


class Limited:
    """One provider of one tenant, which has said at 0 s for how long it takes nothing."""

    def __init__(self, retry_after_ms: int | None = 2000) -> None:
        self.some = SomeProviders(POLICY)
        self.limits = self.some.limits
        self.known = ProviderTracker(Averages(), self.some.breakers, self.limits)
        self.observe(0.0, retry_after_ms=retry_after_ms)

    def observe(
        self,
        at: float,
        outcome: FailureClass | None = FailureClass.RATE_LIMIT,
        *,
        latency_ms: int = 0,
        retry_after_ms: int | None = 2000,
    ) -> None:
        self.some.clock.at = at
        self.limits.observe("acme", "openai", outcome, latency_ms, retry_after_ms)

    def left_ms(self, tenant: str = "acme") -> int:
        return self.limits.find_left_ms(tenant, "openai")

    def is_chosen(self, at: float) -> bool:
        self.some.clock.at = at
        if decide(POLICY, states=self.known.states_of("acme"), now=at)[0] != "openai":
            return False
        self.limits.on_decision("acme", "openai")
        return True


def test_it_is_left_alone_then_probed_once_a_second_for_five_seconds_and_then_free() -> None:
    limited = Limited()
    assert (limited.left_ms(), limited.left_ms("other")) == (2000, 0)
    assert [at / 10 for at in range(71) if limited.is_chosen(at / 10)] == [2, 3, 4, 5, 6, 7]
    assert (limited.known.states_of("acme"), len(limited.limits)) == (NO_STATES, 0)


def test_a_result_of_work_that_began_after_its_time_frees_it() -> None:
    limited = Limited()
    assert limited.is_chosen(2.5)
    limited.observe(2.6, None, latency_ms=1000)
    assert not limited.is_chosen(2.6)
    limited.observe(2.7, None, latency_ms=700)
    assert limited.is_chosen(2.7)
    assert len(limited.limits) == 0
    late = Limited()
    late.observe(602.5, None, latency_ms=600_501)
    assert len(late.limits) == 1


def test_an_end_that_hardly_moves_is_no_news() -> None:
    limited = Limited()
    limited.observe(0.4)
    assert (limited.left_ms(), limited.some.told) == (1600, [("acme", "openai", 2.0)])
    limited.observe(0.5)
    assert (limited.left_ms(), len(limited.some.told)) == (2000, 2)
    assert (limited.is_chosen(2.5), limited.left_ms()) == (True, 0)
    limited.observe(2.5)
    assert [limited.is_chosen(at) for at in (3.6, 4.4, 4.5)] == [False, False, True]


@pytest.mark.parametrize(("retry_after_ms", "left_ms"), [(None, 5000), (10**9, 600_000)])
def test_it_is_left_alone_for_a_setting_where_it_names_no_time_and_never_longer_than_another(
    retry_after_ms: int | None, left_ms: int
) -> None:
    assert Limited(retry_after_ms).left_ms() == left_ms
    assert Limited(500).is_chosen(0.5)


def test_what_another_instance_has_found_holds_here_and_is_told_no_further() -> None:
    limited = Limited()
    limited.limits.apply_remote({("acme", "openai"): 3.0, ("acme", "other"): 0.0})
    assert (limited.left_ms(), len(limited.limits), len(limited.some.told)) == (3000, 1, 1)
