"""Each attempt of an invocation is told to its ledger: before its call, and at its end, with
whether it may have reached the provider.
"""

from collections.abc import Callable

import pytest
from msgspec import Struct
from msgspec.structs import replace

from router.contracts.failure_class import FailureClass
from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.core.errors import CallTimeout, ConnectionLost, NoResponders, RouterError
from router.extensions.model import ExtensionRegistry, HealthTracker, Invoker, parse_entry
from router.extensions.model.failure import InvocationRefused
from router.extensions.model.ports import NULL_METER
from router.extensions.model.providers import ProviderInvoker, ProviderLimits, ServiceRecords
from tests.support.breakers import a_registry
from tests.support.ledgers import KeptLedger
from tests.support.providers import NoLimits
from tests.support.registry import a_version

REQUEST = ProviderRequest(provider_id="echo", tenant_id="acme", request_id="r-1", trace_id="t-1")
ENTRY = {
    "id": "echo",
    "type": "provider",
    "subject": "beamline.provider.echo.v1",
    "retry": 2,
    "config": {"model": "small"},
}


class Reply(Struct):
    data: bytes = b'{"output": "hello", "cost": 0.5}'
    error_code: int | None = None
    error: str | None = None
    fault: str | None = None
    retry_after_ms: int | None = None


class Caller:
    """Answers in turn, each after `takes_s`; the last answer repeats."""

    def __init__(self, *came: Reply | RouterError, takes_s: float = 0.0) -> None:
        self._came = list(came)
        self._takes_s = takes_s
        self.now = 0.0
        self.asked: list[tuple[str, float]] = []

    @property
    def calls(self) -> int:
        return len(self.asked)

    def clock(self) -> float:
        return self.now

    def head(self, _: object) -> bytes:
        return b""

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> Reply:
        self.asked.append((subject, timeout_s))
        self.now += self._takes_s
        came = self._came.pop(0) if len(self._came) > 1 else self._came[0]
        if isinstance(came, RouterError):
            raise came
        return came


async def _no_pause(_: float) -> None: ...


def providers_of(
    caller: Caller, limits: ProviderLimits | None = None, **fields: object
) -> ProviderInvoker:
    breakers, health = a_registry(), HealthTracker()
    invoker = Invoker(caller, breakers, health, NULL_METER, now=caller.clock, sleep=_no_pause)
    not_opened: Callable[..., object] = lambda *_: None  # noqa: E731
    registry = ExtensionRegistry([parse_entry({**ENTRY, **fields})])
    records = ServiceRecords(breakers=breakers, health=health, meter=NULL_METER)
    return ProviderInvoker(
        registry,
        invoker,
        not_opened,  # type: ignore[arg-type]
        records=records,
        limits=limits or NoLimits(),
        longest_s=100.0,
        now=caller.clock,
    )


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


async def test_an_answer_tells_what_it_cost_and_what_it_took() -> None:
    caller = Caller(Reply(), takes_s=0.25)
    response = await providers_of(caller).invoke(REQUEST, KeptLedger())
    assert (response.body, response.cost, response.latency_ms) == ("hello", 0.5, 250)


@pytest.mark.parametrize(
    ("left_s", "given_s"), [(None, 60.0), (2.0, 2.01), (30.0, 30.01), (1000.0, 60.0)]
)
async def test_a_provider_has_its_own_time_and_never_more_than_its_caller(
    left_s: float | None, given_s: float
) -> None:
    """A little more: the caller's own end comes first, and is no fault of the provider's."""
    caller = Caller(Reply())
    providers = providers_of(caller, timeout_ms=60_000)
    await providers.invoke(REQUEST, KeptLedger(), left_s)
    assert [timeout_s for _, timeout_s in caller.asked] == pytest.approx([given_s])


@pytest.mark.parametrize(
    ("metadata", "version"), [({"policy_id": "canary"}, "v2"), ({"policy_id": 7}, "v1"), ({}, "v1")]
)
async def test_the_policy_that_the_request_names_chooses_the_version(
    metadata: dict[str, object], version: str
) -> None:
    caller = Caller(Reply())
    rules = {"v1": "default", "v2": "canary"}
    versions = [
        a_version(name, "echo", "provider", rules={"policy_id": [policy]})
        for name, policy in rules.items()
    ]
    providers = providers_of(caller, subject=None, versions=versions)
    await providers.invoke(replace(REQUEST, metadata=metadata), KeptLedger())
    assert [subject for subject, _ in caller.asked] == [f"beamline.provider.echo.{version}"]


class Limits(NoLimits):
    """It leaves the provider alone for so long, and keeps what it is told."""

    def __init__(self, left_ms: int = 0) -> None:
        self._left_ms = left_ms
        self.told: list[tuple[object, ...]] = []

    def find_left_ms(self, tenant_id: str, provider_id: str) -> int:
        return self._left_ms

    def observe(self, *told: object) -> None:
        self.told.append(told)


LIMITED = Reply(b"", 429, "slow down", retry_after_ms=700)


async def test_a_provider_that_limits_the_tenant_is_not_asked() -> None:
    caller, chunks = Caller(Reply()), list[StreamChunk]()
    providers = providers_of(caller, Limits(left_ms=700))
    response = await providers.invoke(REQUEST, KeptLedger())
    await providers.stream(REQUEST, chunks.append, KeptLedger())
    assert (response.error_code, response.latency_ms, caller.calls) == ("extension_error", 0, 0)
    told = {"fault": "rate_limit", "retry_after_ms": "700"}
    assert (response.metadata, told.items() <= chunks[0].metadata.items()) == (told, True)


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(), [("acme", "echo", None, 250.0, None)]),
        (LIMITED, [("acme", "echo", FailureClass.RATE_LIMIT, 250.0, 700)]),
        (Reply(b"", 422, "not this one"), []),
    ],
)
async def test_a_limit_begins_with_an_answer_that_says_so_and_ends_with_a_success(
    reply: Reply, told: list[tuple[object, ...]]
) -> None:
    limits = Limits()
    response = await providers_of(Caller(reply, takes_s=0.25), limits).invoke(REQUEST, KeptLedger())
    assert (limits.told, response.latency_ms) == (told, 250)


async def test_a_provider_that_is_not_registered_is_not_found() -> None:
    caller, chunks = Caller(Reply()), list[StreamChunk]()
    providers, request = providers_of(caller), replace(REQUEST, provider_id="other")
    response = await providers.invoke(request, KeptLedger())
    await providers.stream(request, chunks.append, KeptLedger())
    assert (response.error_code, response.latency_ms) == ("extension_not_found", 0)
    assert chunks[0].metadata["error_code"] == "extension_not_found"
