"""Every command of `router`, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from router.agents.commands import agent
from router.budgets.commands import budget
from router.budgets.prices.commands import price
from router.bus.commands import bus
from router.cli.bench import OWN_OPTIONS, bench
from router.cli.config import config
from router.cli.console import console
from router.cli.demo import demo
from router.cli.docs import docs
from router.cli.explain import explain
from router.cli.project import dev, init
from router.cli.version import version
from router.decide.commands.decide import decide
from router.decide.commands.decisions import decisions
from router.decide.commands.request import request
from router.extensions.commands import extension
from router.lake.commands import usage
from router.mailbox.commands.inbox import inbox
from router.mailbox.commands.mailbox import mailbox
from router.mailbox.commands.outbox import outbox
from router.operate.commands.audit import audit
from router.operate.commands.backup import backup, restore
from router.operate.commands.dead_letters import dlq
from router.operate.commands.doctor import doctor
from router.operate.commands.topology import topology
from router.policies.commands import policy
from router.serve.commands.serve import serve
from router.serve.commands.tree import tree
from router.serve.contract.commands import contract
from router.work.commands.assignments import assignments
from router.work.commands.provider import provider
from router.work.commands.workers import worker, workers

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
    "Run": {
        "serve": serve,
        "worker": worker,
        "agent": agent,
        "inbox": inbox,
        "outbox": outbox,
        "bus": bus,
        "console": console,
    },
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
    "Policies, extensions, providers": {
        "policy": policy,
        "budget": budget,
        "price": price,
        "extension": extension,
        "provider": provider,
    },
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
        bool,
        typer.Option(
            "--version",
            help="Print the versions, as `router version` does.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None: ...
