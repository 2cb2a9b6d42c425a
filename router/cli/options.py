"""Options that several commands take, each said once, and what a request is named by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NatsUrl = Annotated[
    str | None, typer.Option("--nats-url", metavar="URL", help="NATS server to talk to. Default: NATS_URL, else nats://localhost:4222.")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs instead of text for people.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML. Default: ROUTER_CONFIG_FILE.", dir_okay=False)
]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", help="Processes on the same durables, under one parent. Default: 1, no parent.")
]
PoliciesDir = Annotated[
    Path | None,
    typer.Option(
        "--policies",
        metavar="DIR",
        help="Directory of <tenant>/<policy>.json and _shared/: puts what the server never had; only the package's samples give way to it.",
    ),
]


def check_request_id(tenant: str, request_id: str) -> None:
    """Raises BadParameter for what is no tenant, or no id of a request."""
    from router import ids

    if not ids.is_scoped(tenant):
        raise typer.BadParameter("a tenant is an id: A-Z a-z 0-9 _ . : - without . or _ in front", param_hint="--tenant")
    if not ids.is_opaque(request_id):
        raise typer.BadParameter("an id is 1..128 printable ASCII characters without spaces", param_hint="REQUEST_ID")
