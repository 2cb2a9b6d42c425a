"""`router extension`: read and change the registry, call extensions; and, for authors, try, check and serve them."""

from __future__ import annotations

import typer

from router.extensions.commands.call import call
from router.extensions.commands.check import check
from router.extensions.commands.health import health
from router.extensions.commands.register import register
from router.extensions.commands.registry import disable, enable, list_, remove, show
from router.extensions.commands.serve import serve, serve_samples
from router.extensions.commands.try_ import try_

extension = typer.Typer(no_args_is_help=True, help="Extensions: registered, listed, switched, called by hand.", rich_markup_mode="rich")

extension.command("list")(list_)
extension.command("try")(try_)
for command in (register, show, enable, disable, remove, health, call, check, serve, serve_samples):
    extension.command()(command)
