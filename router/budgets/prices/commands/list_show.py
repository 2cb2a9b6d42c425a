"""`router price list`, `show`, `history`: the prices, which of them are in force, and who wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from router.budgets.prices.commands.store import Model, Provider, list_fields, open_store
from router.shell.command_frame import CommandSession, command
from router.shell.output import print_json_lines, print_table

if TYPE_CHECKING:
    from router.budgets.model.prices import Price
    from router.budgets.prices.store import StoredPrices
    from router.delivery.kv.versioned_store import Change

DELETED = "deleted"
AMOUNTS = ("input", "cached_input", "output", "per_request", "per_second")
COLUMNS = ("price", "valid from", "in force", *(name.replace("_", " ") for name in AMOUNTS), "currency", "trust")

Version = Annotated[int | None, typer.Option("--version", metavar="VERSION", help="An earlier version instead of the present one.", min=1)]


@command()
async def list_(session: CommandSession, *, provider: Annotated[str | None, typer.Option(help="Only this provider's.")] = None) -> None:
    """List the prices, and which are in force; with --json one object a line for each provider and model. Exit status 0.

    Amounts of tokens are for a million of them.

    Example:  router price list --provider openai
    """
    found = [one for one in await (await open_store(session)).list() if provider in (None, one.list.name[0])]
    if session.as_json:
        print_json_lines(map(list_fields, found))
        return
    session.emit(_list_rows(found), COLUMNS, lambda row: row, empty="no prices")


@command()
async def show(session: CommandSession, provider: Provider, model: Model = None, *, version: Version = None) -> None:
    """Show the prices of a provider, or of one of its models, for all times. Exit status: 0 shown, 1 there is none.

    With --version as a usage event names it: openai/gpt-4o#3 is in `router price show openai gpt-4o --version 3`.

    Example:  router price show openai gpt-4o
    """
    stored = await (await open_store(session)).get(*_list_name(provider, model), version=version)
    session.emit_one(list_fields(stored), lambda: print_table(COLUMNS, _list_rows([stored])))


@command()
async def history(session: CommandSession, provider: Provider, model: Model = None) -> None:
    """List who wrote which version when, oldest first. The last 64 writes are kept. Exit status: 0 listed, 1 there never was one.

    Example:  router price history openai gpt-4o
    """
    changes = [_list_change_fields(change) for change in await (await open_store(session)).history(*_list_name(provider, model))]
    if session.as_json:
        print_json_lines(changes)
        return
    print_table(("version", "author", "written", "prices"), [tuple(fields.values()) for fields in changes])


def _list_name(provider: str, model: str | None) -> tuple[str, ...]:
    return (provider,) if model is None else (provider, model)


def _list_rows(found: list[StoredPrices]) -> list[tuple[object, ...]]:
    return [_build_row(stored, one) for stored in found for one in stored.list.prices]


def _build_row(stored: StoredPrices, one: Price) -> tuple[object, ...]:
    from router.budgets.model.prices import price_document
    from router.core.clock import wall

    fields = price_document(one)
    is_in_force = stored.list.find(wall()) is one
    amounts = [fields.get(name, "–") for name in AMOUNTS]
    return (one.label, fields["valid_from"], "yes" if is_in_force else "no", *amounts, fields["currency"], fields["trust"])


def _list_change_fields(change: Change[StoredPrices]) -> dict[str, object]:
    if change.document is not None:
        record = change.document.record
        return {"version": record.version, "author": record.author, "time": record.time, "prices": len(change.document.list.prices)}
    time = datetime.fromtimestamp(change.stored_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return {"version": DELETED, "author": None, "time": time, "prices": 0}
