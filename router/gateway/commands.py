"""`router gateway`: OpenAI's API over HTTP, answered by policy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from router.core.clock import now_ms
from router.gateway.keys.model.api_key import MadeKey, make_key
from router.gateway.server import GatewayService
from router.shell.command_frame import CommandSession, command
from router.shell.options import ConfigFile, NatsUrl
from router.shell.output import announce_event
from router.shell.session import load_settings_of_command

if TYPE_CHECKING:
    from router.config import Settings

Host = Annotated[str | None, typer.Option("--host", help="Address to bind. Default: 127.0.0.1.")]
GatewayPort = Annotated[
    int | None,
    typer.Option("--port", help="Port for clients; 0 = any. Default: 9003.", min=0, max=65535),
]
PagesPort = Annotated[
    int | None,
    typer.Option(
        "--http-port",
        help="Port of /metrics, /healthz and /readyz; 0 = any. Default: 9004.",
        min=0,
        max=65535,
    ),
]


def load_gateway_settings(
    host: Host = None,
    port: GatewayPort = None,
    http_port: PagesPort = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
) -> Settings:
    """Load the settings with those of the command line. Raises Misconfigured."""
    given = {
        "nats.url": nats_url,
        "gateway.host": host,
        "gateway.port": port,
        "gateway.pages_port": http_port,
    }
    return load_settings_of_command(config, given).settings


OwnKey = Annotated[
    str | None,
    typer.Option(
        "--own-key",
        metavar="TENANT",
        help="Make a key for this tenant that lives as long as this process, and print it.",
    ),
]


@command(load_gateway_settings, has_json=False)
async def gateway(session: CommandSession, *, own_key: OwnKey = None) -> int:
    """Serve OpenAI's API over HTTP until SIGTERM or Ctrl-C: a policy chooses who answers.

    Prints one JSON line, gateway.ready, on standard output. A request needs a key of `router key
    create`, and is decided, budgeted and metered by the router that it asks over NATS. Any number
    of gateways may run.

    Example:  router gateway --nats-url nats://nats.internal:4222 --host 0.0.0.0
    """

    made = make_key(own_key, now_ms(), name="own key") if own_key is not None else None

    def announce(url: str, http: str) -> None:
        told = {} if made is None else {"key": made.text, "tenant": made.key.tenant_id}
        announce_event("gateway.ready", url=f"{url}/v1", http=http, **told)
        if sys.stderr.isatty():
            print(_format_invitation(f"{url}/v1", made), file=sys.stderr, flush=True)

    service = GatewayService(session.settings, made.key if made is not None else None)
    return await session.serve(service.run(announce))


def _format_invitation(url: str, made: MadeKey | None) -> str:
    key = "" if made is None else f"\n  key      {made.text}"
    return f"  ask      {url}{key}\n"
