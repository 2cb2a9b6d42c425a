"""Every command of `router`, by name."""

from __future__ import annotations

import typer

from router.cli.agent import agent
from router.cli.assignments import assignments
from router.cli.bench import OWN_OPTIONS, bench
from router.cli.bus import bus
from router.cli.config import config
from router.cli.decide import decide
from router.cli.decisions import decisions
from router.cli.demo import demo
from router.cli.dlq import dlq
from router.cli.doctor import doctor
from router.cli.explain import explain
from router.cli.extension import extension
from router.cli.inbox import inbox
from router.cli.mailbox import mailbox
from router.cli.outbox import outbox
from router.cli.policy import policy
from router.cli.provider import provider
from router.cli.serve import serve
from router.cli.topology import topology
from router.cli.tree import tree
from router.cli.usage import usage
from router.cli.version import version
from router.cli.worker import worker
from router.cli.workers import workers

HELP = """A durable message router on NATS JetStream.

[bold]Try it:[/bold]  router serve --embedded      and then      router decide --tenant acme --type chat --payload hello

Exit statuses: 0 all is well, 1 the answer is no, 2 wrong use or settings, 3 no answer, or the broker denied it, 130 interrupted.
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for command in (serve, worker, decide, workers, doctor, explain, demo, tree, config, version):
    app.command()(command)
app.command(context_settings=OWN_OPTIONS)(bench)
app.add_typer(agent, name="agent")
app.add_typer(assignments, name="assignments")
app.add_typer(bus, name="bus")
app.add_typer(decisions, name="decisions")
app.add_typer(dlq, name="dlq")
app.add_typer(extension, name="extension")
app.add_typer(inbox, name="inbox")
app.add_typer(mailbox, name="mailbox")
app.add_typer(outbox, name="outbox")
app.add_typer(policy, name="policy")
app.add_typer(provider, name="provider")
app.add_typer(topology, name="topology")
app.add_typer(usage, name="usage")
