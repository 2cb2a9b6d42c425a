"""`router extension`: read and change the registry, call extensions; and, for authors, try, check
and serve them.
"""

from __future__ import annotations

import typer

from router.extensions.commands.authors import check, serve, serve_samples, try_
from router.extensions.commands.call import call, health
from router.extensions.commands.registry import disable, enable, list_, register, remove, show

extension = typer.Typer(
    no_args_is_help=True,
    help="Extensions: registered, listed, switched, called by hand.",
    rich_markup_mode="rich",
)

extension.command("list")(list_)
extension.command("try")(try_)
for command in (register, show, enable, disable, remove, health, call, check, serve, serve_samples):
    extension.command()(command)
