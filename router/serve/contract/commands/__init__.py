"""`router contract`: what every subject, header and message is, for programs in any language;
messages checked against it; who broke it.
"""

from __future__ import annotations

import typer

from router.operate.commands.violations import message, violation, violations
from router.serve.contract.commands.check import check
from router.serve.contract.commands.diff import diff
from router.serve.contract.commands.documents import asyncapi, headers, schemas

contract = typer.Typer(
    no_args_is_help=True,
    help=(
        "The contract: its subjects, schemas and headers; messages checked against it, two "
        "contracts compared, and who broke it."
    ),
    rich_markup_mode="rich",
)

for command in (asyncapi, schemas, headers, check, diff, violations, violation, message):
    contract.command()(command)
