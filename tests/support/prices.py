"""Prices in a router's bucket, in force when `put_prices` returns."""

from typing import Any

from router.budgets.model.prices import parse_price
from router.budgets.prices.store import PriceStore
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from tests.support.delivery import connected
from tests.support.patient_client import PATIENCE_S
from tests.support.service import Running
from tests.support.waiting import until


async def put_prices(router: Running, *documents: dict[str, Any]) -> None:
    settings = router.settings
    async with connected(settings.nats.url[0]) as connection:
        store = PriceStore(
            DocumentBucket(
                JetStream(connection, timeout_s=PATIENCE_S), settings.buckets.prices.name
            )
        )
        for document in documents:
            await store.put(
                parse_price({"currency": settings.usage.currency, **document}), author="test"
            )
    wanted = {(document["provider"], document.get("model")) for document in documents}
    await until(
        lambda: all(_has(router, *names) for names in wanted), what="the prices are in force"
    )


def _has(router: Running, provider_id: str, model: str | None) -> bool:
    context = router.service._context
    price = context.pricing.table.find(provider_id, model, 2e9) if context is not None else None
    return price is not None and price.model == model
