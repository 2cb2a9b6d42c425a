"""`router extension`: read and change the registry, call extensions; and, for authors, try, check and serve them."""

from __future__ import annotations

import typer

from router.cli.extension.call import call
from router.cli.extension.check import check
from router.cli.extension.health import health
from router.cli.extension.register import register
from router.cli.extension.registry import disable, enable, list_, remove, show
from router.cli.extension.serve import serve, serve_samples
from router.cli.extension.try_ import try_

extension = typer.Typer(no_args_is_help=True, help="Extensions: registered, listed, switched, called by hand.", rich_markup_mode="rich")

extension.command("list")(list_)
extension.command("try")(try_)
for command in (register, show, enable, disable, remove, health, call, check, serve, serve_samples):
    extension.command()(command)
