"""`router extension health` and `call`.

health     how extensions perform, as all instances of a running router see it, and how many
           services answer now
call       call an extension as a router would
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson
import typer

from router.contracts.exact_json import load_written
from router.contracts.raw_json import RawJson, prompt_of, write_payload
from router.extensions.commands.registry import ExtensionId, open_store
from router.extensions.model import ExtensionRegistry, Route
from router.extensions.pipeline_services import count_services
from router.extensions.store import ExtensionNotFound
from router.extensions.views import HEALTH, list_figures
from router.operate.admin.broadcast import list_key_headers, request_one
from router.shell import exit_codes
from router.shell.broadcast import describe_error
from router.shell.command_frame import CommandSession, command
from router.shell.options import read_object, read_text_payload
from router.shell.output import print_json, print_view, printable

# -- `router extension call`.

ERROR, ERROR_CODE = "Nats-Service-Error", "Nats-Service-Error-Code"


@command()
async def call(
    session: CommandSession,
    extension_id: ExtensionId,
    *,
    payload: Annotated[
        str,
        typer.Option(metavar="JSON|TEXT|@FILE", help="The message's payload; a provider's prompt."),
    ],
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")] = "acme",
    policy: Annotated[str, typer.Option(help="The policy of the request.")] = "default",
    type_: Annotated[str, typer.Option("--type", help="The message's type.")] = "chat",
    metadata: Annotated[
        str, typer.Option(metavar="JSON|@FILE", help="The routing context.")
    ] = "{}",
    timeout_ms: Annotated[
        int | None, typer.Option(help="Instead of the registry's.", min=10)
    ] = None,
) -> int:
    """Call an extension once, and print what it answers and how long it took. No retry, no breaker,
    no policy.

    Exit status: 0 it answered, 1 it answered with an error or is not registered, 3 it did not
    answer.

    Example:  router extension call normalize_text --payload '"  Hello  "'
    """
    context, content = read_object(metadata, "--metadata"), read_text_payload(payload)
    about = {"tenant_id": tenant, "policy_id": policy, "type": type_, "metadata": context}
    route, trace_id = await _find_route(session, extension_id, about), str(uuid.uuid4())
    body = write_payload(_make_request(route, trace_id, content, about))
    connection, began = (await session.open_jetstream()).connection, time.perf_counter()
    headers = {"trace_id": trace_id, "tenant_id": tenant}
    answer = await request_one(
        connection, route.subject, body, headers, timeout_s=(timeout_ms or route.timeout_ms) / 1000
    )
    return _print_answer(
        route,
        answer.data,
        answer.headers or {},
        (time.perf_counter() - began) * 1000,
        session.as_json,
    )


async def _find_route(
    session: CommandSession, extension_id: str, about: Mapping[str, Any]
) -> Route:
    entry = (await (await open_store(session)).get(extension_id)).entry
    who = {name: about[name] for name in ("tenant_id", "policy_id")}
    environment = session.settings.extensions.environment
    route = ExtensionRegistry([entry]).find(
        extension_id, kind=entry.kind, environment=environment, **who
    )
    if route is None:
        raise ExtensionNotFound(
            f"no version of {extension_id!r} is enabled for {who['tenant_id']}/{who['policy_id']}"
        )
    return route


def _make_request(
    route: Route, trace_id: str, payload: RawJson | str, about: Mapping[str, Any]
) -> dict[str, object]:
    """Build the request of docs/reference/extensions.md#calls, for a provider or for the other
    kinds.
    """
    common = {"trace_id": trace_id, "tenant_id": about["tenant_id"]}
    context = {**about["metadata"], "policy_id": about["policy_id"]}
    if route.kind == "provider":
        return {
            **common,
            "provider_id": route.extension_id,
            "prompt": prompt_of(payload),
            "parameters": {},
            "context": context,
        }
    message = {
        "message_id": trace_id,
        "message_type": about["type"],
        "payload": payload,
        "metadata": {},
    }
    return {**common, "payload": message, "metadata": context, "config": dict(route.config)}


def _print_answer(
    route: Route, data: bytes, headers: Mapping[str, str], latency_ms: float, as_json: bool
) -> int:
    code, error = headers.get(ERROR_CODE), headers.get(ERROR)
    answer = _parse_answer(data.decode("utf-8", "replace"))
    if as_json:
        fields = {
            "extension_id": route.extension_id,
            "subject": route.subject,
            "version": route.version,
        }
        outcome = {"error_code": code, "error": error} if code else {"answer": answer}
        print_json({**fields, "latency_ms": round(latency_ms, 3), **outcome})
        return exit_codes.NO if code else exit_codes.OK
    if code:
        return exit_codes.refuse(
            printable(f"extension_error: {route.subject} answered {code}: {error}")
        )
    print_json(answer)
    typer.echo(f"{route.subject}, {latency_ms:.1f} ms", err=True)
    return exit_codes.OK


def _parse_answer(text: str) -> Any:
    """Return JSON, or the text itself."""
    try:
        return load_written(text.encode())
    except ValueError:
        return text


# -- `router extension health`.

HEALTH_SUBJECT = "beamline.router.v1.admin.get_extension_health"
ROUTER = "router-admin"  # the service that every instance offers


@command()
async def health(
    session: CommandSession,
    extension_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this one.")
    ] = None,
) -> int:
    """Ask a running router how its extensions performed in the last five minutes, on all its
    instances.

    An extension that no instance called has no status. "services" counts the services that answer
    now by the NATS service protocol; a plain subscriber does not answer it.

    Exit status: 0 no extension is unhealthy, 1 one is or the router refuses the request, 3 no
    router answers.

    Example:  router extension health
    """
    connection, headers = (
        (await session.open_jetstream()).connection,
        list_key_headers(session.settings.admin.api_key),
    )
    answer = orjson.loads(
        (await request_one(connection, HEALTH_SUBJECT, b"{}", headers, is_router=True)).data
    )
    services = await count_services(connection, [ROUTER, *answer.get("health", {})])
    if error := answer.get("error"):
        return exit_codes.refuse(describe_error(error))
    states = {
        name: state for name, state in answer["health"].items() if extension_id in (None, name)
    }
    if extension_id is not None and not states:
        return exit_codes.refuse(f"no extension {extension_id!r} is registered")
    counts = {name: services[name] for name in states}
    session.emit_one({"health": states, "services": counts}, lambda: _print_health(states, counts))
    _complain_of_missing(services[ROUTER], answer.get("router_node_ids", []))
    return (
        exit_codes.NO
        if any(state["status"] == "unhealthy" for state in states.values())
        else exit_codes.OK
    )


def _print_health(states: Mapping[str, Mapping[str, Any]], services: Mapping[str, int]) -> None:
    if states:
        rows = [
            {"id": name, **list_figures(state), "services": services[name]}
            for name, state in sorted(states.items())
        ]
        print_view(rows, HEALTH)
    else:
        print("no extension is registered")


def _complain_of_missing(instances: int, nodes: Sequence[str]) -> None:
    if nodes and instances > len(nodes):
        missing = instances - len(nodes)
        exit_codes.complain(
            f"{missing} of {instances} instances did not answer in time: the setting "
            "admin.peers_wait_ms gives them longer"
        )
