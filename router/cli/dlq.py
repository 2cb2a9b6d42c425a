"""`router dlq`: the dead letters, listed and read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import ends
from router.cli.letters import as_fields, print_letter, row
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_lines, print_table
from router.cli.session import jetstream_of, settings_of

if TYPE_CHECKING:
    from router.config import Settings
    from router.deadletters import Wanted

dlq = typer.Typer(no_args_is_help=True, help="Dead letters: what failed, why, and what it said.", rich_markup_mode="rich")

COLUMNS = ("seq", "stored", "subject", "reason", "error", "tenant", "message id")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dlq.command("list")
def list_(
    *,
    subject: Annotated[str | None, typer.Option(help="Only letters of this subject; wildcards * and > are allowed.")] = None,
    reason: Annotated[str | None, typer.Option(help="validation_failed, maxdeliver_exhausted, processing_error or unreadable.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only letters of this tenant.")] = None,
    since: Annotated[str | None, typer.Option(help="10m, 2h, 7d ago, or an ISO time.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many, the newest first.", min=1)] = 50,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List letters, the newest first; with --json one object a line. Exit status 0, also when there are none.

    Example:  router dlq list --tenant acme --since 2h
    """
    from router.deadletters import Wanted

    wanted = Wanted(subject=subject, reason=reason, tenant=tenant, since=_since(since))
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_list(settings, wanted, limit, as_json))


@dlq.command()
def show(
    sequence: Annotated[int, typer.Argument(metavar="SEQ", help="The letter's number in `router dlq list`.", min=1)],
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one letter whole, its payload decoded. Exit status: 0 shown, 1 there is no such letter.

    Example:  router dlq show 17
    """
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_show(settings, sequence, as_json))


async def _list(settings: Settings, wanted: Wanted, limit: int, as_json: bool) -> int:
    from router.deadletters import newest_first

    async with jetstream_of(settings) as jetstream:
        letters = [letter async for letter in newest_first(jetstream, settings.streams.dlq.name, wanted, limit)]
    if as_json:
        print_lines(as_fields(letter) for letter in letters)
    elif letters:
        print_table(COLUMNS, map(row, letters))
    else:
        print("no dead letters")
    return ends.OK


async def _show(settings: Settings, sequence: int, as_json: bool) -> int:
    from router.deadletters import show as letter_at

    async with jetstream_of(settings) as jetstream:
        letter = await letter_at(jetstream, settings.streams.dlq.name, sequence)
    if letter is None:
        ends.complain(f"there is no letter {sequence} in {settings.streams.dlq.name}")
        return ends.NO
    if as_json:
        print_json({**as_fields(letter), "letter": _json_of(letter.raw)})
    else:
        print_letter(letter)
    return ends.OK


def _json_of(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([smhd])", text):
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither like 10m, 2h, 7d nor an ISO time", param_hint="--since") from None
