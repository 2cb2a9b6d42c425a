"""`router contract`: what every subject, header and message is, for programs in any language; messages checked against it; who broke it."""

from __future__ import annotations

import typer

from router.cli.contract.asyncapi import asyncapi
from router.cli.contract.check import check
from router.cli.contract.diff import diff
from router.cli.contract.headers import headers
from router.cli.contract.schemas import schemas
from router.cli.contract.violations import message, violation, violations

contract = typer.Typer(
    no_args_is_help=True,
    help="The contract: its subjects, schemas and headers; messages checked against it, two contracts compared, and who broke it.",
    rich_markup_mode="rich",
)

for command in (asyncapi, schemas, headers, check, diff, violations, violation, message):
    contract.command()(command)
