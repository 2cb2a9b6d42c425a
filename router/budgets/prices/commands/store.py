"""The prices of a server for the commands of `router price`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from router.budgets.model.prices import PriceList
    from router.budgets.prices.store import PriceStore, StoredPrices
    from router.operate.audit.audit_event import Values
    from router.shell.session import CommandSession

Provider = Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider's id.")]
Model = Annotated[str | None, typer.Argument(metavar="[MODEL]", help="The model. Without it: the price of all other models.")]


async def open_store(session: CommandSession) -> PriceStore:
    """Open the store. Raises BrokerUnavailable."""
    from router.budgets.prices.store import PriceStore
    from router.delivery.kv.documents import DocumentBucket

    return PriceStore(DocumentBucket(await session.open_jetstream(), session.settings.buckets.prices.name))


async def record_write(session: CommandSession, command: str, target: str, before: Values | None, after: Values | None) -> None:
    """Leave the audit event of a write that is done."""
    from router.operate.audit import OperatorWrite

    await session.record(OperatorWrite(command=command, target=target, before=before, after=after))


def list_audit_values(stored: StoredPrices | None, valid_from: int | None = None) -> Values | None:
    """The version, and the price of this time."""
    from router.budgets.model.prices import price_document

    if stored is None:
        return None
    found = next((one for one in stored.list.prices if one.valid_from == valid_from), None)
    return {"version": stored.record.version, **(price_document(found) if found is not None else {})}


def list_fields(stored: StoredPrices) -> dict[str, object]:
    """`in_force`: the price of now, by this machine's clock; None: all begin later."""
    from router.budgets.prices.store import list_documents
    from router.core.clock import wall

    provider_id, model = stored.list.name
    now, record = stored.list.find(wall()), stored.record
    return {
        "provider": provider_id,
        "model": model,
        "in_force": now.label if now is not None else None,
        "prices": list_documents(stored.list),
        "version": record.version,
        "author": record.author,
        "time": record.time,
    }


def name_prices(prices: PriceList) -> str:
    from router.budgets.model.prices.price import name_price

    return name_price(*prices.name)
