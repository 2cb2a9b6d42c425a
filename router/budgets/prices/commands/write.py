"""`router price put`, `delete`: a price holds in every router within a second, for the attempts that begin after that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.budgets.prices.commands.store import Model, Provider, list_audit_values, open_store, record_write
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import record_missed_event, watch_deletion
from router.shell.option_values import choose_author, read_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from router.budgets.model.prices import Price
    from router.budgets.prices.store import PriceStore, WrittenPrice

MAX_FILE_BYTES = 1024 * 1024

Author = Annotated[str | None, typer.Option("--author", help="Who writes it, for the history. Default: your login name.")]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="One price, a list of them, or {prices: [...]}; - reads standard input.", dir_okay=False)
]


@command()
async def put(session: CommandSession, file: File, *, author: Author = None) -> None:
    """Write prices; one of the same provider, model and valid_from is replaced, the others stay.

    All are checked before the first is written. A price that is there already is not written again, so a file can be put twice.
    With --json one object a line for each price. Exit status: 0 written, 1 refused: a price is not legal, or another write came first.

    Example:  router price put prices.json
    """
    prices = _read_prices(session, file)
    store = await open_store(session)
    written = [await _put(session, store, price, choose_author(author)) for price in prices]
    session.emit(written, ("price", "valid from", "written"), _build_row, _list_fields, empty="no prices")


@command()
async def delete(
    session: CommandSession,
    provider: Provider,
    model: Model = None,
    *,
    valid_from: Annotated[str | None, typer.Option("--valid-from", metavar="TIME", help="Only the price of this time.")] = None,
) -> None:
    """Delete the prices of a provider, or of one of its models; with --valid-from one of them. Exit status: 0 deleted, 1 there is none.

    Example:  router price delete openai gpt-4o
    """
    from router.budgets.model.prices.price import name_price, read_time
    from router.operate.audit import OperatorWrite

    name = (provider,) if model is None else (provider, model)
    store, at = await open_store(session), read_time(valid_from) if valid_from is not None else None
    before = await store.find(*name)
    target = name_price(provider, model)
    async with watch_deletion(session, store, name, OperatorWrite(command="price delete", target=target)):
        version = await (store.delete(*name) if at is None else store.remove(provider, model, at))
    after = None if at is None else {"version": version}
    await record_write(session, "price delete", target, list_audit_values(before, at), after)
    fields = {"ok": True, "provider": provider, "model": model, "valid_from": valid_from, "version": version, "deleted": True}
    session.emit_one(fields, f"{target}{f' from {valid_from}' if valid_from is not None else ''}: deleted")


def _read_prices(session: CommandSession, file: Path) -> Sequence[Price]:
    """Raises PriceError, which names the place."""
    import orjson

    from router.budgets.model.prices import PriceError, PriceList, parse_prices
    from router.budgets.prices.followed import check_currency
    from router.contracts.codec import describe_mark

    data = read_bytes(file, "FILE", MAX_FILE_BYTES)
    try:
        prices = parse_prices(orjson.loads(data))
    except orjson.JSONDecodeError as exc:
        raise PriceError(f"{file} {describe_mark(data) or f'is not JSON: {exc}'}") from None
    check_currency(PriceList(tuple(prices)), session.settings.usage.currency)
    return prices


async def _put(session: CommandSession, store: PriceStore, price: Price, author: str) -> WrittenPrice:
    from router.budgets.model.prices import price_document
    from router.budgets.model.prices.price import name_price
    from router.budgets.prices.store import list_name
    from router.operate.audit import OperatorWrite

    before = await store.find(*list_name(price))
    written = await store.put(price, author=author)
    target = name_price(price.provider_id, price.model)
    after = {"version": written.price.version, **price_document(price)}
    if written.is_new:
        await record_write(session, "price put", target, list_audit_values(before, price.valid_from), after)
    else:
        await record_missed_event(session, store, list_name(price), OperatorWrite(command="price put", target=target, after=after))
    return written


def _build_row(one: WrittenPrice) -> tuple[object, ...]:
    from router.budgets.model.prices.price import format_time

    return (one.price.label, format_time(one.price.valid_from), "yes" if one.is_new else "no: it was there already")


def _list_fields(one: WrittenPrice) -> dict[str, object]:
    from router.budgets.model.prices import price_document

    return {"ok": True, "price": one.price.label, "is_new": one.is_new, **price_document(one.price), "version": one.price.version}
