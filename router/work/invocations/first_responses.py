"""The first responses of plain invocations, where the same request at the same time waits for the first of them.

acquire ── a response that is kept, or that of the request under way
    └── None: the caller asks the provider, and releases the id with its response
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from router.contracts.decision import INVALID_REQUEST
from router.contracts.provider import ProviderResponse
from router.contracts.provider_request import ProviderRequest
from router.core.clock import Clock, steady
from router.core.errors import Conflict
from router.core.single_flight import SingleFlight
from router.extensions.model.failure import EXTENSION_TIMED_OUT, InvocationRefused
from router.extensions.model.first_answers import FirstAnswers


class KeptResponse(Struct, frozen=True):
    """A good response, and how many bytes it has."""

    response: ProviderResponse
    size: int


class FirstResponses:
    """`kept_bytes`: of all of them together."""

    def __init__(self, kept_bytes: int, ttl_s: float, clock: Clock = steady) -> None:
        self._kept: FirstAnswers[ProviderResponse] = FirstAnswers(kept_bytes, ttl_s, clock)
        self._in_progress: SingleFlight[tuple[str, ProviderResponse]] = SingleFlight()

    async def acquire(self, request: ProviderRequest, content: str, within_s: float) -> ProviderResponse | None:
        """The response of the same request; None: the caller holds the id, and must release it. Raises InvocationRefused."""
        try:
            if (known := self._kept.find(request, content)) is not None:
                return known
            async with asyncio.timeout(within_s):
                found = await self._in_progress.acquire((request.tenant_id, request.request_id))
        except Conflict as exc:
            raise make_conflict() from exc
        except TimeoutError as exc:
            message = f"no answer within the {within_s * 1000:.0f} ms that were left"
            raise InvocationRefused(EXTENSION_TIMED_OUT, message, {}) from exc
        if found is None:
            return None
        if found[0] != content:
            raise make_conflict()
        return found[1]

    def check(self, request: ProviderRequest, content: str) -> None:
        """Raises Conflict where a request with this id had other content."""
        self._kept.check(request, content)

    def release(self, request: ProviderRequest, content: str, kept: KeptResponse | None) -> None:
        """Those who wait get the response too; where it is none to be kept, the next of them asks."""
        if kept is not None:
            self._kept.keep(request, content, kept.response, kept.size)
        self._in_progress.release((request.tenant_id, request.request_id), (content, kept.response) if kept is not None else None)


def make_conflict() -> InvocationRefused:
    """Another request had this id."""
    details = {"field": "message_id", "cause": "other_content"}
    return InvocationRefused(INVALID_REQUEST, "This message id was used for a different request", details)
