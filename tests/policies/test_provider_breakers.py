"""Breakers as operators see them: metrics, alerts, and the listing of the admin services."""

from typing import Any

from router.core.breakers import BreakerRules, BreakerTransition
from router.policies.breakers import Breakers
from router.policies.model import PolicyTable, RemoteTransition
from router.process.observability import Metrics
from router.work.settings import ProvidersConfig
from tests.support.app import RecordedAlerts as Heard
from tests.support.breakers import a_guarded_policy
from tests.support.observability import parse_scrape


class Shared:
    """Other instances, who write down what they are told."""

    def __init__(self) -> None:
        self.noted: list[BreakerTransition] = []
        self.limited: list[tuple[str, str, float]] = []
        self.tell: Any = None

    def attach(self, told: Any, told_limits: Any) -> None:
        self.tell, self.tell_limits = told, told_limits

    def note_limit(self, *limit: Any) -> None:
        self.limited.append(limit)

    def note(self, transition: BreakerTransition) -> None:
        self.noted.append(transition)


class Board:
    """The breakers of a process whose policy guards `openai` for acme and evil."""

    def __init__(self, **settings: Any) -> None:
        self.heard = Heard()
        self.metrics = Metrics(**{"tenants": ["acme"], **settings})
        self.shared = Shared()
        policy_table = PolicyTable({("_shared", "default"): a_guarded_policy(tenant="_shared")})
        self.breakers = Breakers(
            self.metrics,
            self.heard.alerts,
            self.shared,  # type: ignore[arg-type]
            policy_table.get_all,
            providers=ProvidersConfig(),
            rules=BreakerRules(failure_threshold=1, success_threshold=1),
            now=self.heard.clock,
        )

    def report(self, times: int, tenant: str = "acme", status: str = "timeout") -> None:
        for _ in range(times):
            self.breakers.providers.observe(
                tenant, "openai", latency_ms=1, cost=0.0, status=status, error_code=None
            )

    def fail(self, extension: str, tenant: str = "acme") -> None:
        breaker = self.breakers.extensions.get(extension, tenant)
        permit = breaker.acquire(5.0)
        assert permit is not None
        breaker.record_failure(permit)

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        found = parse_scrape(self.metrics.registry).get(name, {})
        return {
            tuple(dict(labels)[key] for key in ("kind", "name", *_rest(labels))): value
            for labels, value in found.items()
        }


def _rest(labels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return ("state",) if "state" in dict(labels) else ("from", "to")


def test_one_of_three_series_is_1() -> None:
    board = Board()
    board.report(1)
    board.fail("pii_guard")
    assert board.series("router_circuit_breaker_state") == {
        ("provider", "acme/openai", "closed"): 1,
        ("provider", "acme/openai", "open"): 0,
        ("provider", "acme/openai", "half_open"): 0,
        ("extension", "pii_guard", "closed"): 0,
        ("extension", "pii_guard", "open"): 1,
        ("extension", "pii_guard", "half_open"): 0,
    }


def test_every_change_of_state_is_counted() -> None:
    board = Board()
    board.report(3)
    board.heard.clock.now += 10
    board.report(2, status="success")
    assert board.series("router_circuit_breaker_transitions_total") == {
        ("provider", "acme/openai", "closed", "open"): 1,
        ("provider", "acme/openai", "open", "half_open"): 1,
        ("provider", "acme/openai", "half_open", "closed"): 1,
    }


def test_names_without_a_label_of_their_own_are_counted_together() -> None:
    board = Board(label_limit=1)
    for tenant in ("evil", "worse"):
        board.report(3, tenant)
    for extension in ("a", "b", "c"):
        board.fail(extension)
    series = board.series("router_circuit_breaker_state")
    assert series["provider", "other/openai", "open"] == 2
    assert (series["extension", "a", "open"], series["extension", "other", "open"]) == (1, 2)


def test_an_opening_warns_and_a_closing_informs() -> None:
    board = Board()
    board.report(3)
    board.heard.clock.now += 10
    board.report(1, status="success")
    assert len(board.heard.heard) == 1, "half open is no news"
    board.report(1, status="success")
    assert [(alert["severity"], alert["metadata"]["cause"]) for alert in board.heard.heard] == [
        ("warning", "breaker_opened:provider:acme/openai"),
        ("info", "breaker_closed:provider:acme/openai"),
    ]
    assert board.heard.heard[0]["metadata"]["probed_in_ms"] == 10_000


def test_others_are_told_of_our_own_doing_only_and_operators_once_by_the_instance_that_did_it() -> (
    None
):
    board = Board()
    board.shared.tell({("acme", "openai"): RemoteTransition(board.heard.clock.now + 5, 123)})
    assert (board.shared.noted, board.heard.causes) == ([], [])
    assert board.breakers.provider_states()["acme/openai"]["state"] == "open"
    board.report(3, "evil")
    assert [(one.name, one.state) for one in board.shared.noted] == [("evil/openai", "open")]


def test_the_listing_has_what_operators_ask_for() -> None:
    board = Board()
    board.report(1)
    board.fail("pii_guard")
    assert board.breakers.provider_states() == {
        "acme/openai": {
            "tenant_id": "acme",
            "provider_id": "openai",
            "state": "closed",
            "opened_at_ms": None,
            "failure_count": 1,
            "error_rate": 1.0,
        }
    }
    pii_guard = board.breakers.extension_states()["pii_guard"]
    assert (pii_guard["extension_id"], pii_guard["state"], pii_guard["failure_count"]) == (
        "pii_guard",
        "open",
        1,
    )
    assert isinstance(pii_guard["opened_at_ms"], int)
    assert pii_guard["not_closed"] == {"acme": "open"}


def test_an_extension_that_was_called_and_is_well_is_closed_and_one_that_is_open_to_a_tenant_says_to_whom_it_is_not() -> (
    None
):
    board = Board()
    board.breakers.extensions.get("well", "acme")
    board.breakers.extensions.get("guard", "acme")
    board.fail("guard", "evil")
    series = board.series("router_circuit_breaker_state")
    assert (series["extension", "well", "closed"], series["extension", "guard", "open"]) == (1, 1)
    assert board.heard.causes == ["breaker_opened:extension:guard/evil"]
    assert board.breakers.extension_states()["guard"]["not_closed"] == {"evil": "open"}
    assert board.breakers.extension_states()["well"]["not_closed"] is None
