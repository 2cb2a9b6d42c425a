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
        # what the ledger had been told when the provider was called
        self.begun_before: list[int] = []
        self.providers = ProviderInvoker(
            ExtensionRegistry([parse_entry(ENTRY)]),
            Invoker(NullCaller(), None, None, NULL_METER),
            self._stream,
            records=ServiceRecords(breakers=self.breakers, health=self.health, meter=NULL_METER),
            limits=NoLimits(),
            now=self.clock,
        )

    def clock(self) -> float:
        return self.now

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
        assert int(headers[DEADLINE]) == GIVEN_S * 1000
        self.begun_before.append(len(self.ledger.begun))
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[Piece]:
        self.now += self._takes_s
        yield self._piece


@pytest.mark.parametrize("piece", [Piece(b"", {"Nats-Service-Error-Code": "504"}), Piece(BROKEN)])
async def test_a_provider_that_stops_at_the_askers_deadline_opens_no_breaker(piece: Piece) -> None:
    asked = Asked(piece, takes_s=GIVEN_S)
    for _ in range(CALLS):
        await asked.ask()
    assert asked.breakers.snapshots()["echo"].worst.state == "closed"
    assert asked.health.figures("echo").latency_samples == 0


async def test_a_provider_that_fails_before_is_at_fault() -> None:
    asked = Asked(Piece(BROKEN), takes_s=GIVEN_S / 2)
    for _ in range(5):
        await asked.ask()
    assert asked.breakers.snapshots()["echo"].worst.state == "open"
    assert asked.health.figures("echo").failure_count == 5


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
