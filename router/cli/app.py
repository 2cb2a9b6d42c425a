"""Every command of `router`, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from router.cli.agent import agent
from router.cli.assignments import assignments
from router.cli.audit import audit
from router.cli.backup import backup, restore
from router.cli.bench import OWN_OPTIONS, bench
from router.cli.budget import budget
from router.cli.bus import bus
from router.cli.config import config
from router.cli.console import console
from router.cli.contract import contract
from router.cli.decide import decide
from router.cli.decisions import decisions
from router.cli.demo import demo
from router.cli.dlq import dlq
from router.cli.docs import docs
from router.cli.doctor import doctor
from router.cli.explain import explain
from router.cli.extension import extension
from router.cli.inbox import inbox
from router.cli.mailbox import mailbox
from router.cli.outbox import outbox
from router.cli.policy import policy
from router.cli.price import price
from router.cli.project import dev, init
from router.cli.provider import provider
from router.cli.request import request
from router.cli.serve import serve
from router.cli.topology import topology
from router.cli.tree import tree
from router.cli.usage import usage
from router.cli.version import version
from router.cli.worker import worker
from router.cli.workers import workers

Command = Callable[..., Any]

HELP = """A durable message router on NATS JetStream.

[bold]Try it:[/bold]  router serve --embedded      and then      router decide --tenant acme --type chat --payload hello

Exit statuses: 0 all is well, 1 the answer is no, 2 wrong use or settings, 3 no answer (of a router, the broker,
the database), or the broker denied it, 4 done, but its audit event could not be stored (`router audit`),
74 no room for what it writes, 130 interrupted, 141 the reader of the output stopped.
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PANELS: Mapping[str, Mapping[str, Command | typer.Typer]] = {
    "Begin": {"init": init, "dev": dev},
    "Run": {"serve": serve, "worker": worker, "agent": agent, "inbox": inbox, "outbox": outbox, "bus": bus, "console": console},
    "Ask and look": {
        "decide": decide,
        "demo": demo,
        "request": request,
        "assignments": assignments,
        "decisions": decisions,
        "workers": workers,
        "dlq": dlq,
        "explain": explain,
        "docs": docs,
    },
    "Policies, extensions, providers": {"policy": policy, "budget": budget, "price": price, "extension": extension, "provider": provider},
    "Usage": {"usage": usage},
    "Set up and check": {
        "doctor": doctor,
        "audit": audit,
        "topology": topology,
        "backup": backup,
        "restore": restore,
        "contract": contract,
        "mailbox": mailbox,
        "config": config,
        "tree": tree,
        "version": version,
    },
}

for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)
app.command(context_settings=OWN_OPTIONS, rich_help_panel="Set up and check")(bench)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        version(nats_url=None, config=None, check_store=False)
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the versions, as `router version` does.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...
