"""A decide handler with fakes for what a test does not look at, and the fakes."""

from collections.abc import Callable, Mapping

from router.budgets.model.reserving import Charge
from router.contracts.decision import Decision, Refusal
from router.contracts.request import RouteRequest
from router.core.clock import wall
from router.decide.model import AssignmentPusher, DecideHandler
from router.decide.model.push import AssignmentBucket
from router.decide.settings import AssignmentConfig
from router.extensions.model import ExtensionRegistry, Invoker, NullCaller, PipelineRunner
from router.extensions.model.ports import NULL_METER
from router.policies.model import NO_STATES, Policy, PolicyFinder, evaluate
from router.policies.model.measurements import NO_FIGURES


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


def a_decide_handler(policies: PolicyFinder, meter: object, **ports: object) -> DecideHandler:
    """`ports`: those that the test looks at."""
    told: Callable[[str, Decision], None] = lambda *_: None  # noqa: E731
    fakes: Mapping[str, object] = {
        "push": None,
        "extensions": no_extensions(),
        "assignments": None,
        "states": lambda _: NO_STATES,
        "on_decision": told,
        "evaluate": evaluate,
        "figures": lambda _: NO_FIGURES,
        "canaries": UncountedCanaries(),
        "budgets": {},
        "read_age": lambda stored_at: wall() - stored_at,
    }
    return DecideHandler(policies, meter, **{**fakes, **ports})  # type: ignore[arg-type]
