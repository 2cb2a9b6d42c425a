"""Each attempt of an invocation is told to its ledger: before its call, and at its end, with
whether it may have reached the provider.
"""

from collections.abc import Callable

import pytest

from router.contracts.provider_request import ProviderRequest
from router.core.errors import CallTimeout, ConnectionLost, NoResponders, RouterError
from router.extensions.model import ExtensionRegistry, HealthTracker, Invoker, parse_entry
from router.extensions.model.failure import InvocationRefused
from router.extensions.model.ports import NULL_METER
from router.extensions.model.providers import ProviderInvoker, ServiceRecords
from tests.support.breakers import a_registry
from tests.support.ledgers import KeptLedger
from tests.support.providers import NoLimits

REQUEST = ProviderRequest(provider_id="echo", tenant_id="acme", request_id="r-1", trace_id="t-1")
ENTRY = {
    "id": "echo",
    "type": "provider",
    "subject": "beamline.provider.echo.v1",
    "retry": 2,
    "config": {"model": "small"},
}


class Reply:
    error_code = None
    error = None
    data = b'{"output": "hello", "cost": 0.5}'


class Caller:
    """Answers in turn; the last answer repeats."""

    def __init__(self, *came: Reply | RouterError) -> None:
        self._came = list(came)
        self.calls = 0

    def head(self, _: object) -> bytes:
        return b""

    async def call(self, *_: object) -> Reply:
        self.calls += 1
        came = self._came.pop(0) if len(self._came) > 1 else self._came[0]
        if isinstance(came, RouterError):
            raise came
        return came


async def _no_pause(_: float) -> None: ...


def providers_of(caller: Caller) -> ProviderInvoker:
    breakers, health = a_registry(), HealthTracker()
    invoker = Invoker(caller, breakers, health, NULL_METER, sleep=_no_pause)
    not_opened: Callable[..., object] = lambda *_: None  # noqa: E731
    registry = ExtensionRegistry([parse_entry(ENTRY)])
    records = ServiceRecords(breakers=breakers, health=health, meter=NULL_METER)
    return ProviderInvoker(registry, invoker, not_opened, records=records, limits=NoLimits())  # type: ignore[arg-type]


async def test_the_attempt_that_is_answered_is_left_open_with_what_came() -> None:
    ledger = KeptLedger()
    response = await providers_of(Caller(Reply())).invoke(REQUEST, ledger)
    assert response.ok
    assert (ledger.begun, ledger.taken, ledger.ended) == (["small"], ["hello"], [])


@pytest.mark.parametrize(
    ("failure", "end"),
    [
        (CallTimeout("silent"), ("timeout", True)),
        (ConnectionLost("lost"), ("error", True)),
        (NoResponders("none listens"), ("error", False)),
    ],
)
async def test_each_attempt_that_fails_is_ended_by_itself(
    failure: RouterError, end: tuple[str, bool]
) -> None:
    ledger, caller = KeptLedger(), Caller(failure)
    assert not (await providers_of(caller).invoke(REQUEST, ledger)).ok
    assert caller.calls == len(ledger.begun) == 3
    assert ledger.ended == [end] * 3


async def test_where_an_attempt_cannot_be_recorded_no_provider_is_asked() -> None:
    caller, refusal = (
        Caller(Reply()),
        InvocationRefused("budget_exceeded", "no room", {"left": "0"}),
    )
    response = await providers_of(caller).invoke(REQUEST, KeptLedger(refuses=refusal))
    assert (response.error_code, response.metadata) == ("budget_exceeded", {"left": "0"})
    assert caller.calls == 0


async def test_a_refusal_of_the_ledger_is_no_failure_of_the_provider() -> None:
    caller, refusal = Caller(Reply()), InvocationRefused("budget_exceeded", "no room", {})
    providers = providers_of(caller)
    for _ in range(10):
        await providers.invoke(REQUEST, KeptLedger(refuses=refusal))
    assert (await providers.invoke(REQUEST, KeptLedger())).ok
