"""`router price`: what providers and models cost, for the router to compute what an invocation
costs.

the prices of a server     read, as fields
list, show, history        the prices, which of them are in force, and who wrote them
put, delete                a price holds in every router within a second, for the attempts that
                           begin after that
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import orjson
import typer

from router.budgets.model.prices import Price, PriceError, PriceList, parse_prices, price_document
from router.budgets.model.prices.price import format_time, name_price, read_time
from router.budgets.prices.store import (
    AuditedPrices,
    PriceStore,
    StoredPrices,
    WrittenPrice,
    check_currency,
    describe_price,
    list_documents,
    list_name,
)
from router.contracts.codec import describe_mark
from router.core.clock import wall
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.versioned_store import Change
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import record_missed_event, watch_deletion
from router.shell.options import Author, choose_author, read_bytes
from router.shell.output import print_json_lines, print_view
from router.shell.view import View, ViewColumn

# -- The prices of a server.

Provider = Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider's id.")]
Model = Annotated[
    str | None,
    typer.Argument(metavar="[MODEL]", help="The model. Without it: the price of all other models."),
]


async def open_store(session: CommandSession) -> PriceStore:
    """Open the store. Raises BrokerUnavailable."""
    return PriceStore(
        DocumentBucket(await session.open_jetstream(), session.settings.buckets.prices.name)
    )


async def open_audited_store(session: CommandSession) -> AuditedPrices:
    """Open the store for writes. Raises BrokerUnavailable."""
    return AuditedPrices(await open_store(session), session)


def list_fields(stored: StoredPrices) -> dict[str, object]:
    """`in_force`: the price of now, by this machine's clock; None: all begin later."""
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
    return name_price(*prices.name)


# -- `list`, `show` and `history`.

DELETED = "deleted"
AMOUNTS = ("input", "cached_input", "output", "per_request", "per_second")


class ShownPrice(NamedTuple):
    price: Price
    is_in_force: bool


def _read_field(name: str) -> Callable[[ShownPrice], object]:
    return lambda shown: price_document(shown.price).get(name, "–")


PRICES = View(
    ViewColumn("price", of="price.label"),
    ViewColumn("valid_from", of=_read_field("valid_from")),
    ViewColumn("in_force", of=lambda shown: "yes" if shown.is_in_force else "no"),
    *(ViewColumn(name, of=_read_field(name)) for name in (*AMOUNTS, "currency", "trust")),
)
Version = Annotated[
    int | None,
    typer.Option(
        "--version", metavar="VERSION", help="An earlier version instead of the present one.", min=1
    ),
]


@command()
async def list_(
    session: CommandSession,
    *,
    provider: Annotated[str | None, typer.Option(help="Only this provider's.")] = None,
) -> None:
    """List the prices, and which are in force; with --json one object a line for each provider and
    model. Exit status 0.

    Amounts of tokens are for a million of them.

    Example:  router price list --provider openai
    """
    price_lists = [
        stored
        for stored in await (await open_store(session)).list()
        if provider in (None, stored.list.name[0])
    ]
    if session.as_json:
        print_json_lines(map(list_fields, price_lists))
        return
    session.emit(_list_shown(price_lists), PRICES, empty="no prices")


@command()
async def show(
    session: CommandSession, provider: Provider, model: Model = None, *, version: Version = None
) -> None:
    """Show the prices of a provider, or of one of its models, for all times. Exit status: 0 shown,
    1 there is none.

    With --version as a usage event names it: openai/gpt-4o#3 is in `router price show openai gpt-4o
    --version 3`.

    Example:  router price show openai gpt-4o
    """
    stored = await (await open_store(session)).get(*_list_name(provider, model), version=version)
    shown = _list_shown([stored])
    session.emit_one(list_fields(stored), lambda: print_view(shown, PRICES))


@command()
async def history(session: CommandSession, provider: Provider, model: Model = None) -> None:
    """List who wrote which version when, oldest first. The last 64 writes are kept. Exit status: 0
    listed, 1 there never was one.

    Example:  router price history openai gpt-4o
    """
    changes = await (await open_store(session)).history(*_list_name(provider, model))
    session.emit(map(_list_change_fields, changes), HISTORY, empty="")


def _list_name(provider: str, model: str | None) -> tuple[str, ...]:
    return (provider,) if model is None else (provider, model)


def _list_shown(price_lists: Sequence[StoredPrices]) -> Sequence[ShownPrice]:
    pairs = [(stored, price) for stored in price_lists for price in stored.list.prices]
    return [ShownPrice(price, stored.list.find(wall()) is price) for stored, price in pairs]


def _list_change_fields(change: Change[StoredPrices]) -> dict[str, object]:
    if change.document is not None:
        record = change.document.record
        return {
            "version": record.version,
            "author": record.author,
            "time": record.time,
            "prices": len(change.document.list.prices),
        }
    time = change.stored_at.isoformat(timespec="milliseconds")
    return {"version": DELETED, "author": None, "time": time, "prices": 0}


HISTORY = View(
    *map(ViewColumn, ("version", "author")),
    ViewColumn("written", of="time"),
    ViewColumn("prices"),
)


# -- `put` and `delete`.

MAX_FILE_BYTES = 1024 * 1024

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="One price, a list of them, or {prices: [...]}; - reads standard input.",
        dir_okay=False,
    ),
]


@command()
async def put(session: CommandSession, file: File, *, author: Author = None) -> None:
    """Write prices; one of the same provider, model and valid_from is replaced, the others stay.

    All are checked before the first is written. A price that is there already is not written again,
    so a file can be put twice. With --json one object a line for each price. Exit status: 0
    written, 1 refused: a price is not legal, or another write came first.

    Example:  router price put prices.json
    """
    prices = _read_prices(session, file)
    audited = await open_audited_store(session)
    written = [await _put_price(session, audited, price, choose_author(author)) for price in prices]
    session.emit(written, WRITTEN, empty="no prices")


@command()
async def delete(
    session: CommandSession,
    provider: Provider,
    model: Model = None,
    *,
    valid_from: Annotated[
        str | None,
        typer.Option("--valid-from", metavar="TIME", help="Only the price of this time."),
    ] = None,
) -> None:
    """Delete the prices of a provider, or of one of its models; with --valid-from one of them. Exit
    status: 0 deleted, 1 there is none.

    Example:  router price delete openai gpt-4o
    """
    name = (provider,) if model is None else (provider, model)
    audited = await open_audited_store(session)
    at = read_time(valid_from) if valid_from is not None else None
    async with watch_deletion(session, audited, *name):
        version = await (
            audited.delete(*name) if at is None else audited.remove(provider, model, at)
        )
    fields = {
        "ok": True,
        "provider": provider,
        "model": model,
        "valid_from": valid_from,
        "version": version,
        "deleted": True,
    }
    session.emit_one(
        fields,
        f"{name_price(provider, model)}{f' from {valid_from}' if valid_from is not None else ''}: deleted",
    )


def _read_prices(session: CommandSession, file: Path) -> Sequence[Price]:
    """Raises PriceError, which names the place."""
    data = read_bytes(file, "FILE", MAX_FILE_BYTES)
    try:
        prices = parse_prices(orjson.loads(data))
    except orjson.JSONDecodeError as exc:
        raise PriceError(f"{file} {describe_mark(data) or f'is not JSON: {exc}'}") from None
    check_currency(PriceList(tuple(prices)), session.settings.usage.currency)
    return prices


async def _put_price(
    session: CommandSession, audited: AuditedPrices, price: Price, author: str
) -> WrittenPrice:
    written = await audited.put(price, author=author)
    if not written.is_new:
        after = describe_price(price, written.price.version)
        await record_missed_event(session, audited, "price put", list_name(price), after)
    return written


def _list_written_fields(written: WrittenPrice) -> dict[str, object]:
    return {
        "ok": True,
        "price": written.price.label,
        "is_new": written.is_new,
        **price_document(written.price),
        "version": written.price.version,
    }


WRITTEN = View(
    ViewColumn("price", of="price.label"),
    ViewColumn("valid_from", of=lambda shown: format_time(shown.price.valid_from)),
    ViewColumn(
        "written", of=lambda written: "yes" if written.is_new else "no: it was there already"
    ),
    fields=_list_written_fields,
)
