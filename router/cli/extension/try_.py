"""`router extension try`: one function on one payload, without NATS; and what the router would make of its answer."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import ends
from router.cli.extension.loaded import extensions_at
from router.cli.extension.meant import what_the_router_does
from router.cli.options import AsJson
from router.cli.output import print_json, printable
from router.cli.typed import message_of, object_of

if TYPE_CHECKING:
    from router.extension import Extension
    from router.sdk.extension.results import RequestFailed

EMPTY = "{}"


def try_(
    target: Annotated[str, typer.Argument(metavar="FILE:FUNCTION", help="Where it stands; a module's name will do for a file.")],
    *,
    payload: Annotated[str, typer.Option(metavar="JSON|TEXT|@FILE", help="The message's payload; a provider's prompt.")],
    config: Annotated[
        str, typer.Option("--config", "--extension-config", metavar="JSON|@FILE", help="What a policy would say to it.")
    ] = EMPTY,
    metadata: Annotated[str, typer.Option(metavar="JSON|@FILE", help="The routing context; a provider's context.")] = EMPTY,
    parameters: Annotated[str, typer.Option(metavar="JSON|@FILE", help="A provider's parameters.")] = EMPTY,
    message_type: Annotated[str, typer.Option("--type", help="The message's type.")] = "chat",
    tenant: Annotated[str, typer.Option(help="On whose behalf.")] = "acme",
    as_json: AsJson = False,
) -> None:
    """Run one extension here, as if the router had asked. No broker is needed.

    Exit status: 0 it answered (a rejection is an answer), 1 it failed or what it returned is no answer, 2 it cannot be loaded.

    Example:  router extension try my_extensions.py:shout --payload '"hello"' --config '{"times": 2}'
    """
    parts = {
        "payload": message_of(payload),
        "config": object_of(config, "--config"),
        "metadata": object_of(metadata, "--metadata"),
        "parameters": object_of(parameters, "--parameters"),
        "message_type": message_type,
        "tenant_id": tenant,
    }
    with ends.errors_told():
        found = extensions_at(target)
    if len(found) != 1:
        raise typer.BadParameter(f"say which one: {', '.join(f'{target}:{one.name}' for one in found)}", param_hint="FILE:FUNCTION")
    raise typer.Exit(_try(found[0], orjson.dumps(_request(found[0], parts)), as_json))


def _try(extension: Extension, data: bytes, as_json: bool) -> int:
    from router.sdk.extension.results import RequestFailed

    began = time.perf_counter()
    try:
        answer = _answer(extension, data)
    except RequestFailed as failed:
        return _tell_failure(extension, failed, as_json)
    latency_ms = round((time.perf_counter() - began) * 1000, 3)
    meant = what_the_router_does(extension.kind, extension.id, answer)
    if as_json:
        print_json({"answer": orjson.loads(answer), "latency_ms": latency_ms, "router": meant})
    else:
        print_json(orjson.loads(answer))
        print(printable(f"{meant} ({latency_ms:g} ms)"))
    return ends.OK


def _answer(extension: Extension, data: bytes) -> bytes:
    from router.sdk.extension.function_runner import FunctionRunner

    work = FunctionRunner(extension, tell=partial(_show, extension))
    return work.run_now(data, {}) if extension.is_plain else asyncio.run(work.run(data, {}, None))


def _show(extension: Extension, exc: BaseException) -> None:
    """Where it was raised, from the author's first line on."""
    frames = traceback.extract_tb(exc.__traceback__)
    own = inspect.getsourcefile(extension.function)
    first = next((place for place, frame in enumerate(frames) if frame.filename == own), 0)
    lines = [*traceback.format_list(frames[first:]), *traceback.format_exception_only(exc)]
    print(printable("".join(lines)), end="", file=sys.stderr, flush=True)


def _tell_failure(extension: Extension, failed: RequestFailed, as_json: bool) -> int:
    again = "not tried again" if failed.status < 500 else f"tried again {extension.retry or 0} times"
    meant = f"extension_error, {again}; the policy's mode decides what then"
    if as_json:
        error = {"status": failed.status, "code": failed.code, "message": str(failed), "field": failed.field}
        print_json({"error": {name: value for name, value in error.items() if value is not None}, "router": meant})
    else:
        ends.complain(printable(f"{failed.status} {failed.code}: {failed}"))
        ends.complain(meant)
    return ends.NO


def _request(extension: Extension, parts: dict[str, Any]) -> dict[str, Any]:
    told = {"trace_id": "try-1", "tenant_id": parts["tenant_id"], "config": parts["config"]}
    if extension.kind == "provider":
        prompt = parts["payload"] if isinstance(parts["payload"], str) else orjson.dumps(parts["payload"]).decode()
        asked = {"provider_id": extension.id, "prompt": prompt, "parameters": parts["parameters"], "context": parts["metadata"]}
        return {**told, **asked}
    message = {"message_id": "try-1", "message_type": parts["message_type"], "payload": parts["payload"], "metadata": {}}
    return {**told, "payload": message, "metadata": {"policy_id": "default", **parts["metadata"]}}
