"""`router extension try`: call one function with one payload, without NATS; and show what the router would do with its answer."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.import_target import import_extensions
from router.shell.option_values import read_object, read_text_payload
from router.shell.output import print_json, printable

if TYPE_CHECKING:
    from router.sdk.extension import Extension
    from router.sdk.extension.results import RequestFailed

EMPTY = "{}"


@command(skip_settings)
def try_(
    session: CommandSession,
    target: Annotated[str, typer.Argument(metavar="FILE:FUNCTION", help="The extension; FILE may be a module's name.")],
    *,
    payload: Annotated[str, typer.Option(metavar="JSON|TEXT|@FILE", help="The message's payload; a provider's prompt.")],
    config: Annotated[
        str, typer.Option("--config", "--extension-config", metavar="JSON|@FILE", help="The config that a policy would send.")
    ] = EMPTY,
    metadata: Annotated[str, typer.Option(metavar="JSON|@FILE", help="The routing context; a provider's context.")] = EMPTY,
    parameters: Annotated[str, typer.Option(metavar="JSON|@FILE", help="A provider's parameters.")] = EMPTY,
    message_type: Annotated[str, typer.Option("--type", help="The message's type.")] = "chat",
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")] = "acme",
) -> int:
    """Run one extension here, as if the router had called it. No broker is needed.

    Exit status: 0 it answered (a rejection is an answer), 1 it failed or what it returned is no answer, 2 it cannot be loaded.

    Example:  router extension try my_extensions.py:shout --payload '"hello"' --config '{"times": 2}'
    """
    from router.contracts.raw_json import write_payload

    parts = {
        "payload": read_text_payload(payload),
        "config": read_object(config, "--config"),
        "metadata": read_object(metadata, "--metadata"),
        "parameters": read_object(parameters, "--parameters"),
        "message_type": message_type,
        "tenant_id": tenant,
    }
    found = import_extensions(target)
    if len(found) != 1:
        raise typer.BadParameter(f"say which one: {', '.join(f'{target}:{one.name}' for one in found)}", param_hint="FILE:FUNCTION")
    return _try(session, found[0], write_payload(_make_request(found[0], parts)))


def _try(session: CommandSession, extension: Extension, data: bytes) -> int:
    from router.contracts.exact_json import load_written
    from router.sdk.extension.results import RequestFailed

    began = time.perf_counter()
    try:
        answer = _call(extension, data)
    except RequestFailed as failed:
        return _print_failure(extension, failed, session.as_json)
    latency_ms, fields = round((time.perf_counter() - began) * 1000, 3), load_written(answer)
    effect = _describe_effect(extension.kind, extension.id, answer)
    session.emit_one({"answer": fields, "latency_ms": latency_ms, "router": effect}, lambda: print_json(fields))
    if not session.as_json:
        print(printable(f"{effect} ({latency_ms:g} ms)"))
    return exit_codes.OK


def _call(extension: Extension, data: bytes) -> bytes:
    from router.sdk.extension.function_runner import FunctionRunner

    work = FunctionRunner(extension, tell=partial(_print_traceback, extension))
    return work.run_now(data, {}) if extension.is_plain else asyncio.run(work.run(data, {}, None))


def _print_traceback(extension: Extension, exc: BaseException) -> None:
    """Print the traceback, from the author's first line on."""
    frames = traceback.extract_tb(exc.__traceback__)
    own = inspect.getsourcefile(extension.function)
    first = next((place for place, frame in enumerate(frames) if frame.filename == own), 0)
    lines = [*traceback.format_list(frames[first:]), *traceback.format_exception_only(exc)]
    print(printable("".join(lines)), end="", file=sys.stderr, flush=True)


def _print_failure(extension: Extension, failed: RequestFailed, as_json: bool) -> int:
    again = "not tried again" if failed.status < 500 else f"tried again {extension.retry or 0} times"
    meant = f"extension_error, {again}; the policy's mode decides what then"
    if as_json:
        error = {"status": failed.status, "code": failed.code, "message": str(failed), "field": failed.field}
        print_json({"error": {name: value for name, value in error.items() if value is not None}, "router": meant})
    else:
        exit_codes.complain(printable(f"{failed.status} {failed.code}: {failed}"))
        exit_codes.complain(meant)
    return exit_codes.NO


def _make_request(extension: Extension, parts: dict[str, Any]) -> dict[str, Any]:
    from router.contracts.raw_json import prompt_of

    common = {"trace_id": "try-1", "tenant_id": parts["tenant_id"], "config": parts["config"]}
    if extension.kind == "provider":
        prompt = prompt_of(parts["payload"])
        return {**common, "provider_id": extension.id, "prompt": prompt, "parameters": parts["parameters"], "context": parts["metadata"]}
    message = {"message_id": "try-1", "message_type": parts["message_type"], "payload": parts["payload"], "metadata": {}}
    return {**common, "payload": message, "metadata": {"policy_id": "default", **parts["metadata"]}}


def _describe_effect(kind: str, extension_id: str, answer: bytes) -> str:
    """Read the answer with the router's own readers. An answer that it cannot read is `extension_error`."""
    from router.core.errors import RouterError

    try:
        match kind:
            case "validator":
                return _describe_validator(answer)
            case "provider":
                return _describe_provider(extension_id, answer)
            case _:
                return _describe_processor(kind, answer)
    except RouterError as exc:
        return f"extension_error, not tried again: {exc}"


def _describe_processor(kind: str, answer: bytes) -> str:
    from router.contracts.extension import read_processor_answer

    changed = read_processor_answer(answer)
    names = ", ".join(changed.metadata) or "nothing"
    if kind == "post":
        return f"the decision's metadata gains {names}; nothing else of it changes"
    payload = changed.message.payload
    shown = repr(payload) if isinstance(payload, bytes) else payload.data.decode() if payload is not None else "null"
    return f"the payload is now {shown[:200]}; the context gains {names}"


def _describe_validator(answer: bytes) -> str:
    from router.contracts.extension import read_validator_answer

    judged = read_validator_answer(answer)
    if judged.is_ok:
        return "the request goes on"
    return f"validator_blocked, reason {judged.reason}, where the policy says on_fail: block; it goes on with warn and ignore"


def _describe_provider(extension_id: str, answer: bytes) -> str:
    from router.contracts.provider_call import read_answer

    read = read_answer(answer, extension_id)
    details = ", ".join(f"{name} {value}" for name, value in read.metadata.items())
    return f"success, cost {read.cost:g}" + (f", {details}" if details else "")
