"""Every command of `router`, by name: its panel in `router --help`, and the place where it stands.

`shell.lazy_commands` loads a command when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from router.shell.lazy_commands import GroupPlace, Place, load_command, make_group_class

HELP = """A durable message router on NATS JetStream.

[bold]Try it:[/bold]  router serve --embedded      and then      router decide --tenant acme --type chat --payload hello

Exit statuses: 0 all is well, 1 the answer is no, 2 wrong use or settings, 3 no answer (of a router, the broker,
the database), or the broker denied it, 4 done, but its audit event could not be stored (`router audit`),
74 no room for what it writes, 130 interrupted, 141 the reader of the output stopped.
"""

PANELS: Mapping[str | None, Mapping[str, Place]] = {
    "Begin": {"init": "router.cli.project.commands:init", "dev": "router.cli.project.commands:dev"},
    "Run": {
        "serve": "router.serve.commands.serve:serve",
        "worker": "router.work.commands.workers:worker",
        "agent": GroupPlace(
            "Agents whose effects happen once: run them, inspect their stores, replay them.",
            {
                "run": "router.agents.commands:run",
                "send": "router.agents.commands:send",
                "hash": "router.agents.commands:hash_",
                "replay": "router.agents.commands:replay",
                "events": "router.agents.commands:events",
                "state": "router.agents.commands:state",
                "verify": "router.agents.commands:verify",
            },
        ),
        "inbox": GroupPlace(
            "Events of another context, handled once (SDS-047).",
            {
                "consume": "router.mailbox.commands:consume",
                "backlog": "router.mailbox.commands:backlog_of_inbox",
            },
        ),
        "outbox": GroupPlace(
            "The outbox: publish it, inspect it, repair it.",
            {
                "relay": "router.mailbox.commands:relay",
                "backlog": "router.mailbox.commands:backlog_of_outbox",
                "publish": "router.mailbox.commands:publish",
                "parked": "router.mailbox.commands:list_parked",
                "requeue": "router.mailbox.commands:requeue",
            },
        ),
        "bus": GroupPlace(
            "The envelope bus: events and commands published, watched; its streams, its schema.",
            {
                "publish": "router.bus.commands:publish",
                "tail": "router.bus.commands:tail",
                "topology": "router.bus.commands:topology",
                "schema": "router.bus.commands:schema",
                "check-drain": "router.bus.commands:check_drain",
            },
        ),
        "console": "router.cli.console:console",
        "gateway": "router.gateway.commands:gateway",
    },
    "Ask and look": {
        "decide": "router.decide.commands.decide:decide",
        "demo": "router.cli.demo.chapters:demo",
        "request": "router.decide.commands.request:request",
        "assignments": GroupPlace(
            "Assignments: what was pushed to workers, and their status.",
            {"show": "router.work.commands.assignments:show"},
            own="router.work.commands.assignments:list_",
        ),
        "decisions": GroupPlace(
            "Decisions that were recorded, explained.",
            {"explain": "router.decide.commands.request:explain"},
        ),
        "workers": "router.work.commands.workers:workers",
        "dlq": GroupPlace(
            "Dead letters: what failed, why, and its content; and replay.",
            {
                "list": "router.operate.commands.dead_letters.list_show:list_",
                "show": "router.operate.commands.dead_letters.list_show:show",
                "stats": "router.operate.commands.dead_letters.list_show:stats",
                "replay": "router.operate.commands.dead_letters.replay:replay",
                "export": "router.operate.commands.dead_letters.replay:export",
                "discard": "router.operate.commands.dead_letters.replay:discard",
            },
        ),
        "explain": "router.cli.explain:explain",
        "docs": "router.cli.docs:docs",
    },
    "Policies, extensions, providers": {
        "policy": GroupPlace(
            "Policies: checked, written, shown, compared, rolled back.",
            {
                "list": "router.policies.commands.list_show:list_",
                "try": "router.policies.commands.try_:try_",
                "put": "router.policies.commands.write:put",
                "show": "router.policies.commands.list_show:show",
                "history": "router.policies.commands.list_show:history",
                "diff": "router.policies.commands.list_show:diff",
                "rollback": "router.policies.commands.write:rollback",
                "delete": "router.policies.commands.write:delete",
                "sync": "router.policies.commands.write:sync",
                "lint": "router.policies.commands.try_:lint",
                "canary": GroupPlace(
                    "A policy tried on a few requests: promoted or rolled back.",
                    {
                        "start": "router.policies.commands.canary:start",
                        "status": "router.policies.commands.canary:status",
                        "list": "router.policies.commands.canary:list_",
                        "abort": "router.policies.commands.canary:abort",
                    },
                ),
            },
        ),
        "budget": GroupPlace(
            "Budgets: what tenants may spend, and what they have spent.",
            {
                "list": "router.budgets.commands.budget:list_",
                "show": "router.budgets.commands.budget:show",
                "put": "router.budgets.commands.budget:put",
                "adjust": "router.budgets.commands.adjust:adjust",
                "delete": "router.budgets.commands.budget:delete",
            },
        ),
        "price": GroupPlace(
            "Prices: what providers and models cost.",
            {
                "list": "router.budgets.prices.commands:list_",
                "show": "router.budgets.prices.commands:show",
                "put": "router.budgets.prices.commands:put",
                "delete": "router.budgets.prices.commands:delete",
                "history": "router.budgets.prices.commands:history",
            },
        ),
        "key": GroupPlace(
            "API keys of the gateway: made, rotated, revoked.",
            {
                "list": "router.gateway.keys.commands:list_",
                "show": "router.gateway.keys.commands:show",
                "create": "router.gateway.keys.commands:create",
                "rotate": "router.gateway.keys.commands:rotate",
                "revoke": "router.gateway.keys.commands:revoke",
            },
        ),
        "extension": GroupPlace(
            "Extensions: registered, listed, switched, called by hand.",
            {
                "list": "router.extensions.commands.registry:list_",
                "try": "router.extensions.commands.authors:try_",
                "register": "router.extensions.commands.registry:register",
                "show": "router.extensions.commands.registry:show",
                "enable": "router.extensions.commands.registry:enable",
                "disable": "router.extensions.commands.registry:disable",
                "remove": "router.extensions.commands.registry:remove",
                "health": "router.extensions.commands.call:health",
                "call": "router.extensions.commands.call:call",
                "check": "router.extensions.commands.authors:check",
                "serve": "router.extensions.commands.authors:serve",
                "serve-samples": "router.extensions.commands.authors:serve_samples",
            },
        ),
        "provider": GroupPlace(
            "Providers: served, asked directly, and what is learned of them.",
            {
                "run": "router.providers.commands:run",
                "stats": "router.policies.commands.list_show:stats",
                "invoke": "router.work.commands.provider:invoke",
            },
        ),
    },
    "Usage": {
        "usage": GroupPlace(
            "Usage: the stream into tables, reports from them, exact sums.",
            {
                "ingest": "router.lake.commands.ingest:ingest",
                "report": "router.lake.commands.report:report",
                "export": "router.lake.commands.report:export",
                "adjust": "router.lake.commands.adjust:adjust",
                "reconcile": "router.lake.commands.reconcile:reconcile",
                "audit": "router.lake.commands.reconcile:audit",
                "seal": "router.lake.commands.retention:seal",
                "backfill": "router.lake.commands.tables:backfill",
                "compact": "router.lake.commands.tables:compact",
                "vacuum": "router.lake.commands.tables:vacuum",
                "erase": "router.lake.commands.retention:erase",
                "retention": "router.lake.commands.retention:retention",
                "schema": "router.lake.commands.tables:schema",
                "generate": "router.lake.commands.generate:generate",
                "held": GroupPlace(
                    "Costs above their bound: listed, accepted, or set.",
                    {
                        "list": "router.lake.commands.held:list_",
                        "accept": "router.lake.commands.held:accept",
                    },
                ),
            },
        )
    },
    "Set up and check": {
        "doctor": "router.operate.commands.doctor:doctor",
        "audit": "router.operate.commands.audit:audit",
        "topology": GroupPlace(
            "Streams and consumers: compared, created, exported.",
            {
                "plan": "router.operate.commands.topology:plan",
                "apply": "router.operate.commands.topology:apply",
                "mirror": "router.operate.commands.topology:mirror",
                "source": "router.operate.commands.topology:source",
                "promote": "router.operate.commands.topology:promote",
                "export": "router.operate.commands.topology:export",
            },
        ),
        "backup": "router.operate.commands.backup:backup",
        "restore": "router.operate.commands.backup:restore",
        "contract": GroupPlace(
            (
                "The contract: its subjects, schemas and headers; messages checked against it, "
                "two contracts compared, and who broke it."
            ),
            {
                "asyncapi": "router.serve.contract.commands.documents:asyncapi",
                "schemas": "router.serve.contract.commands.documents:schemas",
                "headers": "router.serve.contract.commands.documents:headers",
                "check": "router.serve.contract.commands.check:check",
                "diff": "router.serve.contract.commands.diff:diff",
                "violations": "router.operate.commands.violations:violations",
                "violation": "router.operate.commands.violations:violation",
                "message": "router.operate.commands.violations:message",
            },
        ),
        "mailbox": GroupPlace(
            "The tables of outbox and inbox: created, checked.",
            {
                "migrate": "router.mailbox.commands:migrate",
                "check": "router.mailbox.commands:check",
            },
        ),
        "bench": GroupPlace(
            "Measurements: of a running router under a load of your own, in a checkout of Router itself.",
            {"load": "router.decide.commands.load.command:load"},
            own="router.cli.bench:bench",
            hands_on=True,
        ),
        "config": "router.cli.config:config",
        "tree": "router.serve.commands.tree:tree",
        "version": "router.cli.version:version",
    },
}

app = typer.Typer(
    cls=make_group_class(PANELS),
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        load_command("version", PANELS["Set up and check"]["version"])([], standalone_mode=False)
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
