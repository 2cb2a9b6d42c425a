"""`router contract`: what every subject, header and message is, for programs in any language; messages checked against it."""

from __future__ import annotations

import typer

from router.cli.contract.check import check
from router.cli.contract.schemas import schemas

contract = typer.Typer(
    no_args_is_help=True,
    help="The contract: its schemas, and messages checked against it.",
    rich_markup_mode="rich",
)

for command in (schemas, check):
    contract.command()(command)
