"""`router policy`: check, write, show, compare and roll back policies, and synchronise them with a
directory.
"""

from __future__ import annotations

import typer

from router.policies.commands.canary import canary
from router.policies.commands.list_show import diff, history, list_, show
from router.policies.commands.try_ import lint, try_
from router.policies.commands.write import delete, put, rollback, sync

policy = typer.Typer(
    no_args_is_help=True,
    help="Policies: checked, written, shown, compared, rolled back.",
    rich_markup_mode="rich",
)

policy.add_typer(canary, name="canary")
policy.command("list")(list_)
policy.command("try")(try_)
for command in (put, show, history, diff, rollback, delete, sync, lint):
    policy.command()(command)
