"""`router budget`: what tenants may spend in an hour, a day or a month, and what is spent of it."""

from __future__ import annotations

import typer

from router.budgets.commands.adjust import adjust
from router.budgets.commands.list_show import list_, show
from router.budgets.commands.write import delete, put

budget = typer.Typer(no_args_is_help=True, help="Budgets: what tenants may spend, and what they have spent.", rich_markup_mode="rich")

budget.command("list")(list_)
for command in (show, put, adjust, delete):
    budget.command()(command)
