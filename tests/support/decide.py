"""A decide handler with fakes for what a test does not look at, and the fakes."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from router.budgets.model.reserving import Charge
from router.contracts.assignment import Assignment
from router.contracts.decision import Decision, Refusal, RouteRequest
from router.core.clock import steady, wall
from router.core.deferred import Deferred
from router.decide.model import (
    AssignmentPusher,
    DecideHandler,
    DecideMeter,
    DecideRules,
    IdempotencyCache,
    NewAssignment,
    PolicyDecider,
    ProviderChooser,
)
from router.decide.model.push import AssignmentBucket
from router.decide.settings import AssignmentConfig
from router.extensions.model import ExtensionRegistry, Invoker, NullCaller, PipelineRunner
from router.extensions.model.ports import NULL_METER
from router.policies.model import (
    NO_STATES,
    Policy,
    PolicyFinder,
    ProviderStates,
    RateLimits,
    Sessions,
    evaluate,
)
from router.policies.model.measurements import NO_FIGURES, LearnedFigures

T = TypeVar("T")
# Names that `a_decide_handler` takes of `FakeProviders`.
OF_PROVIDERS = ("states", "figures", "on_decision")


class UncountedCanaries:
    """A canary meter that counts nothing."""

    def on_decided(
        self, policy: Policy, tenant_id: str, answer: Decision | Refusal, *, is_pushed: bool
    ) -> None: ...

    def on_shadow(
        self, policy: Policy, answer: Decision | Refusal, shadow: Decision | Refusal
    ) -> None: ...


class UnlimitedShares:
    """Every tenant may fill the stream of assignments."""

    def is_over(self, tenant: str) -> bool:
        return False

    def add(self, tenant: str, size: int) -> None: ...


class NoCharges:
    """No decision has reserved anything."""

    def take_charge(self, request: RouteRequest) -> Charge | None:
        return None


def a_pusher(
    bucket: AssignmentBucket, *, shares: UnlimitedShares | None = None, **rules: object
) -> AssignmentPusher:
    return AssignmentPusher(
        bucket, AssignmentConfig(**rules), shares or UnlimitedShares(), NoCharges()
    )  # type: ignore[arg-type]


def no_extensions() -> PipelineRunner:
    """No extension is registered."""
    return PipelineRunner(
        ExtensionRegistry(), Invoker(NullCaller(), None, None, NULL_METER), meter=NULL_METER
    )


class FakeStoring:
    """A connection that was lost as often as a test says."""

    def __init__(self, reconnect_count: int = 0) -> None:
        self.reconnect_count = reconnect_count


class NoBucket:
    """Of known assignments: nothing is pushed, so it is never asked."""

    async def find(self, key: str) -> bytes | None:
        raise AssertionError(key)

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        raise AssertionError(key)


class NoAssignments:
    """No earlier request has an assignment."""

    def recall(self, assignment_id: str) -> Assignment | None:
        return None

    def lookup(self, assignment_id: str, conclude: Callable[[Assignment | None], T]) -> Deferred[T]:
        deferred: Deferred[T] = Deferred()
        deferred.resolve_with(conclude, None)
        return deferred


class FakeProviders:
    """What is known of providers, by the functions that a test gives; else nothing is."""

    def __init__(
        self,
        states: Callable[[str], ProviderStates] = lambda _: NO_STATES,
        figures: Callable[[str], Mapping[str, LearnedFigures]] = lambda _: NO_FIGURES,
        on_decision: Callable[[str, Decision], None] = lambda *_: None,
    ) -> None:
        self.states_of, self.figures_of, self.on_decision = states, figures, on_decision


def push_nothing() -> AssignmentPusher:
    """Assignments are switched off."""
    return a_pusher(NoBucket(), enabled=False)


def a_decide_handler(policies: PolicyFinder, meter: object, **ports: Any) -> DecideHandler:
    """`ports`: those that the test looks at, of the handler, its decider and its chooser."""
    rules, canaries = ports.get("rules", DecideRules()), ports.get("canaries", UncountedCanaries())
    now = ports.get("now", steady)
    chooser = ProviderChooser(
        Sessions(clock=now),
        cast(DecideMeter, meter),
        providers=FakeProviders(**{name: ports[name] for name in OF_PROVIDERS if name in ports}),
        evaluate=evaluate,
        canaries=canaries,
        budgets=ports.get("budgets", {}),
        policies=policies,
    )
    decider = PolicyDecider(
        chooser,
        policies=policies,
        rates=ports.get("rates", RateLimits()),
        canaries=canaries,
        rules=rules,
        read_age=lambda stored_at: wall() - stored_at,
    )
    return DecideHandler(
        decider,
        cast(DecideMeter, meter),
        rules=rules,
        cache=ports.get("cache", IdempotencyCache(FakeStoring(), clock=now)),
        push=ports.get("push", push_nothing()),
        extensions=ports.get("extensions", no_extensions()),
        assignments=NoAssignments(),
        now=now,
    )
