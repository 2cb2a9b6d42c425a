"""`router price`: what providers and models cost, for the router to compute what an invocation costs."""

from __future__ import annotations

import typer

from router.budgets.prices.commands.list_show import history, list_, show
from router.budgets.prices.commands.write import delete, put

price = typer.Typer(no_args_is_help=True, help="Prices: what providers and models cost.", rich_markup_mode="rich")

price.command("list")(list_)
for command in (show, put, delete, history):
    price.command()(command)
