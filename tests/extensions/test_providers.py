"""A provider's stream that fails when the time of its asker is over: the asker's choice, and no
fault of the provider's.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from msgspec import Struct

from router.contracts.extension import DEADLINE
from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.core.errors import ConnectionLost
from router.extensions.model import ExtensionRegistry, HealthTracker, Invoker, parse_entry
from router.extensions.model.ports import NULL_METER, NullCaller
from router.extensions.model.providers import ProviderInvoker, ServiceRecords
from tests.support.breakers import a_registry
from tests.support.ledgers import KeptLedger
from tests.support.providers import NoLimits

REQUEST = ProviderRequest(provider_id="echo", tenant_id="acme", request_id="r-1", trace_id="t-1")
ENTRY = {
    "id": "echo",
    "type": "provider",
    "subject": "beamline.provider.echo.v1",
    "timeout_ms": 5_000,
}
GIVEN_S = 2.0
CALLS = 12  # above the failures in a row, and above the window's calls, that open a breaker
BROKEN = b'{"done": true, "metadata": {"status": "error", "error_code": "deadline_exceeded"}}'


class Piece(Struct):
    data: bytes
    headers: dict[str, str] = {}


class Asked:
    """Providers of a registry with one entry; each stream is one piece, which comes after
    `takes_s`.
    """

    def __init__(self, piece: Piece, takes_s: float) -> None:
        self.now = 0.0
        self.breakers, self.health = a_registry(now=self.clock), HealthTracker(now=self.clock)
        self._piece, self._takes_s = piece, takes_s
        self.ledger = KeptLedger()
        self.told: list[tuple[str, float]] = []
        self.given_ms = GIVEN_S * 1000
        # what the ledger had been told when the provider was called
        self.begun_before: list[int] = []
        self.providers = ProviderInvoker(
            ExtensionRegistry([parse_entry(ENTRY)]),
            Invoker(NullCaller(), None, None, NULL_METER),
            self._stream,
            records=ServiceRecords(breakers=self.breakers, health=self.health, meter=self),
            limits=NoLimits(),
            now=self.clock,
        )

    def clock(self) -> float:
        return self.now

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None:
        self.told.append((status, seconds))

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None:
        raise NotImplementedError

    async def ask(self) -> None:
        chunks: list[StreamChunk] = []
        await self.providers.stream(REQUEST, chunks.append, self.ledger, GIVEN_S)
        assert chunks[-1].done

    @asynccontextmanager
    async def _stream(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
        silence_s: float,
        on_unread: object,
    ) -> AsyncIterator[AsyncIterator[Piece]]:
        assert (int(headers[DEADLINE]), silence_s) == (self.given_ms, 5.0)
        self.begun_before.append(len(self.ledger.begun))
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[Piece]:
        self.now += self._takes_s
        yield self._piece


@pytest.mark.parametrize("piece", [Piece(b"", {"Nats-Service-Error-Code": "504"}), Piece(BROKEN)])
async def test_a_provider_that_stops_at_the_askers_deadline_opens_no_breaker(piece: Piece) -> None:
    asked = Asked(piece, takes_s=GIVEN_S - 0.0099)
    for _ in range(CALLS):
        await asked.ask()
    assert asked.breakers.snapshots()["echo"].worst.state == "closed"
    assert asked.health.figures("echo").latency_samples == 0


@pytest.mark.parametrize("takes_s", [GIVEN_S / 2, GIVEN_S - 0.0101])
async def test_a_provider_that_fails_before_is_at_fault(takes_s: float) -> None:
    asked = Asked(Piece(BROKEN), takes_s)
    for _ in range(6):
        await asked.ask()
    assert asked.breakers.snapshots()["echo"].worst.state == "open"
    figures = asked.health.figures("echo")
    assert (figures.failure_count, figures.last_latency_ms) == (5, pytest.approx(takes_s * 1000))
    assert asked.told == [*[("error", pytest.approx(takes_s))] * 5, ("open", 0.0)]


async def test_a_stream_of_which_no_time_is_told_has_ten_minutes() -> None:
    asked = Asked(Piece(b'{"done": true}'), takes_s=0)
    asked.given_ms = 600_000
    await asked.providers.stream(REQUEST, lambda _: None, asked.ledger)
    assert (asked.begun_before, asked.ledger.ended) == ([1], [("success", True)])
    assert asked.health.figures("echo").success_count == 1


async def test_a_stream_is_in_the_ledger_before_its_provider_is_called_and_ended_after_it() -> None:
    asked = Asked(Piece(BROKEN), takes_s=GIVEN_S / 2)
    for _ in range(2):
        await asked.ask()
    assert asked.begun_before == [1, 2]
    assert [was_sent for _, was_sent in asked.ledger.ended] == [True, True]


async def test_a_stream_that_its_ledger_refuses_calls_no_provider() -> None:
    asked = Asked(Piece(BROKEN), takes_s=0)
    asked.ledger = KeptLedger(refuses=ConnectionLost("the bucket of attempts is away"))
    await asked.ask()
    assert asked.begun_before == []
