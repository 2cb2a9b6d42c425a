"""`router dlq`: dead letters: list, show, replay, export, discard."""

from __future__ import annotations

import typer

from router.operate.commands.dead_letters.list_show import list_, show, stats
from router.operate.commands.dead_letters.replay import discard, export, replay

dlq = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: what failed, why, and its content; and replay.",
    rich_markup_mode="rich",
)

dlq.command("list")(list_)
for command in (show, stats, replay, export, discard):
    dlq.command()(command)
