"""Meters invocations of providers, attempt by attempt (docs/reference/extensions.md#metered).

    a request ── open ──> InvocationBill ──> AttemptStore: a record before each call, a usage event after it

While nothing can be stored no provider is asked: what it did could not be metered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from router.budgets.prices.shared_ratios import SharedRatios
from router.contracts.provider_request import ProviderRequest
from router.contracts.request import INVOKED_TYPE, STREAMED_TYPE
from router.extensions.model.failure import InvocationRefused
from router.work.invocations.invocation_bill import BillingParts, InvocationBill


class InvocationMetering:
    """Of the process that serves providers."""

    def __init__(self, parts: BillingParts, ratios: SharedRatios) -> None:
        self._parts = parts
        self._ratios = ratios

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """For the duration of the block. Raises BrokerUnavailable."""
        async with self._parts.store.open(), self._parts.claims.open():
            yield

    def is_paused(self, tenant_id: str) -> bool:
        """Whether no provider may be asked for this tenant now."""
        return self._parts.is_on and self._parts.store.is_paused(tenant_id)

    def make_refusal(self) -> InvocationRefused:
        """Why none may."""
        return self._parts.store.make_refusal()

    def begin(self, request: ProviderRequest, *, is_stream: bool) -> InvocationBill:
        """The bill of an invocation that begins now."""
        self._ratios.want(request.tenant_id)
        return InvocationBill(request, STREAMED_TYPE if is_stream else INVOKED_TYPE, self._parts)
