"""Options that several commands share, and the check of a request's id."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.core import ids

NatsUrl = Annotated[
    str | None,
    typer.Option(
        "--nats-url",
        metavar="URL",
        help="The NATS server. Default: NATS_URL, else nats://localhost:4222.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="JSON for programs instead of text for people.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings in TOML. Default: ROUTER_CONFIG_FILE.",
        dir_okay=False,
    ),
]
Dsn = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help="The context's database. Better in ROUTER_MAILBOX__DSN: other users can see options.",
        show_default=False,
    ),
]
ContextName = Annotated[
    str | None, typer.Option("--context", help="The context. Default: mailbox.context.")
]
Monitors = Annotated[
    list[str] | None,
    typer.Option(
        "--monitor",
        metavar="URL",
        help=(
            "A server's monitoring port, like http://127.0.0.1:8222; may be given for each "
            "server. Default: nats.monitor."
        ),
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        metavar="N",
        help="Processes on the same durables, under one parent. Default: 1, no parent.",
    ),
]


def _refuse_workers(value: str | None) -> None:
    if value is not None:
        raise typer.BadParameter(
            "--workers is called --processes now; a worker is a program that executes assignments"
        )


RenamedWorkers = Annotated[
    str | None, typer.Option("--workers", hidden=True, callback=_refuse_workers)
]
PoliciesDir = Annotated[
    Path | None,
    typer.Option(
        "--policies",
        metavar="DIR",
        help=(
            "Directory of <tenant>/<policy>.json and _shared/: stores policies that the server "
            "never had; replaces only the samples."
        ),
    ),
]


def check_request_id(tenant: str, request_id: str) -> None:
    """Raises BadParameter if the tenant is no id, or the request's id is none."""
    if not ids.is_scoped(tenant):
        raise typer.BadParameter(
            "a tenant is an id: A-Z a-z 0-9 _ . : - without . or _ in front", param_hint="--tenant"
        )
    if not ids.is_opaque(request_id):
        raise typer.BadParameter(
            "an id is 1..128 printable ASCII characters without spaces", param_hint="REQUEST_ID"
        )
