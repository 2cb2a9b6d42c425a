"""`router extension health`: how extensions perform, as all instances of a running router see it, and how many services answer now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer

from router.shell import exit_codes
from router.shell.broadcast import describe_error
from router.shell.command_frame import CommandSession, command
from router.shell.output import print_table

HEALTH_SUBJECT = "beamline.router.v1.admin.get_extension_health"
ROUTER = "router-admin"  # the service that every instance offers
COLUMNS = ("id", "status", "success", "calls", "failures", "p50 ms", "p95 ms", "p99 ms", "breaker", "services", "nodes")


@command()
async def health(
    session: CommandSession, extension_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this one.")] = None
) -> int:
    """Ask a running router how its extensions performed in the last five minutes, on all its instances.

    An extension that no instance called has no status. "services" counts the services that answer now by the NATS service
    protocol; a plain subscriber does not answer it.

    Exit status: 0 no extension is unhealthy, 1 one is or the router refuses the request, 3 no router answers.

    Example:  router extension health
    """
    from router.extensions.count_services import count_services
    from router.operate.admin.broadcast import list_key_headers, request_one

    connection, headers = (await session.open_jetstream()).connection, list_key_headers(session.settings.admin.api_key)
    answer = orjson.loads((await request_one(connection, HEALTH_SUBJECT, b"{}", headers, is_router=True)).data)
    services = await count_services(connection, [ROUTER, *answer.get("health", {})])
    if error := answer.get("error"):
        return exit_codes.refuse(describe_error(error))
    found = {name: one for name, one in answer["health"].items() if extension_id in (None, name)}
    if extension_id is not None and not found:
        return exit_codes.refuse(f"no extension {extension_id!r} is registered")
    counts = {name: services[name] for name in found}
    session.emit_one({"health": found, "services": counts}, lambda: _print_health(found, counts))
    _complain_of_missing(services[ROUTER], answer.get("router_node_ids", []))
    return exit_codes.NO if any(one["status"] == "unhealthy" for one in found.values()) else exit_codes.OK


def _print_health(found: Mapping[str, Mapping[str, Any]], services: Mapping[str, int]) -> None:
    if found:
        print_table(COLUMNS, (_build_row(name, one, services[name]) for name, one in sorted(found.items())))
    else:
        print("no extension is registered")


def _complain_of_missing(instances: int, nodes: Sequence[str]) -> None:
    if nodes and instances > len(nodes):
        missing = instances - len(nodes)
        exit_codes.complain(f"{missing} of {instances} instances did not answer in time: the setting admin.peers_wait_ms gives them longer")


def _build_row(name: str, one: Mapping[str, Any], services: int) -> tuple[object, ...]:
    breaker, found = one.get("circuit_breaker_state"), services or "none found"
    nodes = " ".join(sorted(one.get("nodes", {})))
    if not one["latency_samples"]:
        return (name, "no calls", None, 0, None, None, None, None, breaker, found, nodes)
    latencies = [f"{one[f'p{share}_latency_ms']:.1f}" for share in (50, 95, 99)]
    calls = one["success_count"] + one["failure_count"]
    return (name, one["status"], f"{one['success_rate']:.1%}", calls, one["failure_count"], *latencies, breaker, found, nodes)
