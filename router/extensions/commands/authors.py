"""`router extension check`, `serve`, `serve-samples`, `try`: for authors of extensions.

check                    test a running extension against the contract, whatever its language
serve, serve-samples     serve extensions until a signal stops them
try                      run one extension here, without a broker
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
import traceback
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import nats.errors
import typer

from router.contracts.exact_json import load_written
from router.contracts.extension import (
    SERVICE_ERROR,
    SERVICE_ERROR_CODE,
    read_processor_answer,
    read_validator_answer,
)
from router.contracts.provider_call import read_answer
from router.contracts.raw_json import prompt_of, write_payload
from router.core import ids
from router.core.errors import RouterError, Unanswered
from router.delivery.wire.connection import Connection
from router.extensions.model.entry import KINDS, SUBJECT_PREFIXES
from router.sdk.extension import Extension, ExtensionServer
from router.sdk.extension.contract import ContractCase, Reaction, cases
from router.sdk.extension.function_runner import FunctionRunner
from router.sdk.extension.request import RequestFailed
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.import_target import import_extensions
from router.shell.options import read_object, read_text_payload
from router.shell.output import announce_event, print_json, print_table, printable

# -- `router extension try`.

EMPTY_OBJECT = "{}"


@command(skip_settings)
def try_(
    session: CommandSession,
    target: Annotated[
        str,
        typer.Argument(metavar="FILE:FUNCTION", help="The extension; FILE may be a module's name."),
    ],
    *,
    payload: Annotated[
        str,
        typer.Option(metavar="JSON|TEXT|@FILE", help="The message's payload; a provider's prompt."),
    ],
    config: Annotated[
        str,
        typer.Option(
            "--config",
            "--extension-config",
            metavar="JSON|@FILE",
            help="The config that a policy would send.",
        ),
    ] = EMPTY_OBJECT,
    metadata: Annotated[
        str, typer.Option(metavar="JSON|@FILE", help="The routing context; a provider's context.")
    ] = EMPTY_OBJECT,
    parameters: Annotated[
        str, typer.Option(metavar="JSON|@FILE", help="A provider's parameters.")
    ] = EMPTY_OBJECT,
    message_type: Annotated[str, typer.Option("--type", help="The message's type.")] = "chat",
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")] = "acme",
) -> int:
    """Run one extension here, as if the router had called it. No broker is needed.

    Exit status: 0 it answered (a rejection is an answer), 1 it failed or what it returned is no
    answer, 2 it cannot be loaded.

    Example:  router extension try my_extensions.py:shout --payload '"hello"' --config '{"times": 2}'
    """
    parts = {
        "payload": read_text_payload(payload),
        "config": read_object(config, "--config"),
        "metadata": read_object(metadata, "--metadata"),
        "parameters": read_object(parameters, "--parameters"),
        "message_type": message_type,
        "tenant_id": tenant,
    }
    extensions = import_extensions(target)
    if len(extensions) != 1:
        raise typer.BadParameter(
            f"say which one: {', '.join(f'{target}:{extension.name}' for extension in extensions)}",
            param_hint="FILE:FUNCTION",
        )
    return _try(session, extensions[0], write_payload(_make_request(extensions[0], parts)))


def _try(session: CommandSession, extension: Extension, data: bytes) -> int:
    began = time.perf_counter()
    try:
        answer = _call(extension, data)
    except RequestFailed as failed:
        return _print_failure(extension, failed, session.as_json)
    latency_ms, fields = round((time.perf_counter() - began) * 1000, 3), load_written(answer)
    effect = _describe_effect(extension.kind, extension.id, answer)
    session.emit_one(
        {"answer": fields, "latency_ms": latency_ms, "router": effect}, lambda: print_json(fields)
    )
    if not session.as_json:
        print(printable(f"{effect} ({latency_ms:g} ms)"))
    return exit_codes.OK


def _call(extension: Extension, data: bytes) -> bytes:
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
    again = (
        "not tried again" if failed.status < 500 else f"tried again {extension.retry or 0} times"
    )
    meant = f"extension_error, {again}; the policy's mode decides what then"
    if as_json:
        error = {
            "status": failed.status,
            "code": failed.code,
            "message": str(failed),
            "field": failed.field,
        }
        print_json(
            {
                "error": {name: value for name, value in error.items() if value is not None},
                "router": meant,
            }
        )
    else:
        exit_codes.complain(printable(f"{failed.status} {failed.code}: {failed}"))
        exit_codes.complain(meant)
    return exit_codes.NO


def _make_request(extension: Extension, parts: dict[str, Any]) -> dict[str, Any]:
    common = {"trace_id": "try-1", "tenant_id": parts["tenant_id"], "config": parts["config"]}
    if extension.kind == "provider":
        prompt = prompt_of(parts["payload"])
        return {
            **common,
            "provider_id": extension.id,
            "prompt": prompt,
            "parameters": parts["parameters"],
            "context": parts["metadata"],
        }
    message = {
        "message_id": "try-1",
        "message_type": parts["message_type"],
        "payload": parts["payload"],
        "metadata": {},
    }
    return {**common, "payload": message, "metadata": {"policy_id": "default", **parts["metadata"]}}


def _describe_effect(kind: str, extension_id: str, answer: bytes) -> str:
    """Read the answer with the router's own readers. An answer that it cannot read is
    `extension_error`.
    """
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
    changed = read_processor_answer(answer)
    names = ", ".join(changed.metadata) or "nothing"
    if kind == "post":
        return f"the decision's metadata gains {names}; nothing else of it changes"
    payload = changed.message.payload
    shown = (
        repr(payload)
        if isinstance(payload, bytes)
        else payload.data.decode()
        if payload is not None
        else "null"
    )
    return f"the payload is now {shown[:200]}; the context gains {names}"


def _describe_validator(answer: bytes) -> str:
    judged = read_validator_answer(answer)
    if judged.is_ok:
        return "the request goes on"
    return (
        f"validator_blocked, reason {judged.reason}, where the policy says on_fail: block; it "
        "goes on with warn and ignore"
    )


def _describe_provider(extension_id: str, answer: bytes) -> str:
    read = read_answer(answer, extension_id)
    details = ", ".join(f"{name} {value}" for name, value in read.metadata.items())
    return f"success, cost {read.cost:g}" + (f", {details}" if details else "")


# -- `router extension check`.

CHECK_COLUMNS = ("check", "verdict", "why")
OK, WARN, FAIL = "ok", "warn", "fail"


@command()
async def check(
    session: CommandSession,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT", help="Where it listens, as beamline.ext.pre.normalize_text.v1."
        ),
    ],
    *,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type", help="pre, validator, post or provider. Default: as the subject says."
        ),
    ] = None,
    payload: Annotated[
        str, typer.Option(metavar="JSON|TEXT|@FILE", help="A payload that it can handle.")
    ] = '"hello"',
    extension_config: Annotated[
        str, typer.Option(metavar="JSON|@FILE", help="The config that a policy would send.")
    ] = "{}",
    timeout_ms: Annotated[
        int, typer.Option(help="How long it may take to answer.", min=10, max=60_000)
    ] = 2000,
    strict: Annotated[
        bool, typer.Option("--strict", help="Treat recommendations as requirements.")
    ] = False,
) -> int:
    """Send good requests and bad ones, and check whether the router could use the answers.

    Exit status: 0 it can be used, 1 a check failed, 3 no service listens there. The requests come
    from the tenant contract-check.

    Example:  router extension check beamline.ext.validate.pii_guard.v1 --payload '"my text"'
    """
    kind, extension_id = _parse_subject(subject, type_)
    tried = cases(
        kind,
        extension_id,
        read_text_payload(payload),
        read_object(extension_config, "--extension-config"),
    )
    connection = (await session.open_jetstream()).connection
    verdicts = [
        await _check_case(connection, subject, case, timeout_ms / 1000, strict) for case in tried
    ]
    is_usable = all(verdict != FAIL for _, verdict, _ in verdicts)
    checks = [{"check": name, "verdict": verdict, "why": why} for name, verdict, why in verdicts]
    session.emit_one(
        {"subject": subject, "ok": is_usable, "checks": checks},
        lambda: print_table(CHECK_COLUMNS, verdicts),
    )
    return exit_codes.OK if is_usable else exit_codes.NO


async def _check_case(
    connection: Connection, subject: str, case: ContractCase, timeout_s: float, strict: bool
) -> tuple[str, str, str | None]:
    if len(case.data) > connection.max_payload - 1024:
        return (
            case.name,
            WARN,
            f"not tried: this server takes at most {connection.max_payload} bytes",
        )
    heard = await asyncio.gather(
        *(
            _request_case(connection, subject, case.data, case.headers, timeout_s)
            for _ in range(case.times)
        )
    )
    why = next(
        (
            why
            for answer in heard
            if (why := _describe_silence(timeout_s) if answer is None else case.judge(answer))
            is not None
        ),
        None,
    )
    if why is None:
        return case.name, OK, None
    return case.name, FAIL if case.is_must or strict else WARN, why


async def _request_case(
    connection: Connection, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float
) -> Reaction | None:
    """Return the reaction, or None if there is no answer in time. Raises Unanswered if no service
    listens.
    """
    try:
        answer = await connection.request(
            subject, data, timeout=timeout_s, headers=dict(headers) or None
        )
    except nats.errors.NoRespondersError:
        raise Unanswered(f"no service listens on {subject}") from None
    except (nats.errors.Error, TimeoutError):
        return None
    answered = answer.headers or {}
    code = answered.get(SERVICE_ERROR_CODE)
    return Reaction(
        answer.data, _parse_code(code) if code is not None else None, answered.get(SERVICE_ERROR)
    )


def _parse_code(code: str) -> int:
    return int(code) if code.isdecimal() and len(code) == 3 else 0


def _describe_silence(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} s"


def _parse_subject(subject: str, type_: str | None) -> tuple[str, str]:
    """Return the kind and the id that a subject names; the option's kind wins."""
    if not ids.is_literal_subject(subject):
        raise typer.BadParameter("is not one literal subject", param_hint="SUBJECT")
    if type_ is not None and type_ not in KINDS:
        raise typer.BadParameter(f"is not one of {', '.join(KINDS)}", param_hint="--type")
    kind = next(
        (kind for kind, prefix in SUBJECT_PREFIXES.items() if subject.startswith(prefix)), None
    )
    if kind is None and type_ is None:
        raise typer.BadParameter(
            f"{subject} does not say what it is; give --type", param_hint="SUBJECT"
        )
    rest = (
        subject.removeprefix(SUBJECT_PREFIXES[kind])
        if kind is not None
        else subject.rpartition(".")[2]
    )
    return type_ or kind or "", rest.partition(".")[0]


# -- `router extension serve` and `serve-samples`.

SAMPLES = ("normalize_text", "mask_payload", "pii_guard", "mask_pii", "echo_provider")

Register = Annotated[
    bool, typer.Option("--register", help="Ask the router to write the entries that are missing.")
]
ApiKey = Annotated[
    str | None,
    typer.Option(
        help="For registering, if the router requires one. Default: the setting admin.api_key."
    ),
]
Concurrency = Annotated[
    int,
    typer.Option(
        help="Requests in progress at once, for each function that awaits or blocks.", min=1
    ),
]


@command(has_json=False)
def serve(
    session: CommandSession,
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE[:FUNCTION]", help="A file with extensions; a module's name will do."
        ),
    ],
    *,
    register: Register = False,
    instance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[=WEIGHT]", help="This process in the registry; may be given again."
        ),
    ] = None,
    concurrency: Concurrency = 64,
    drain: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long running requests may take at the end.", min=0
        ),
    ] = 10.0,
    api_key: ApiKey = None,
) -> Coroutine[Any, Any, int]:
    """Serve extensions until SIGTERM or Ctrl-C; then finish what is in flight and end with 0.

    Prints one JSON line, extensions.ready, once requests are answered. Logs go to standard error.

    Example:  router extension serve my_extensions.py --register
    """
    extensions = import_extensions(target)
    shares = dict(_parse_instance(text) for text in instance or ())
    return _serve(
        session,
        extensions,
        api_key,
        register=register,
        instances=shares,
        concurrency=concurrency,
        drain_s=drain,
    )


@command(has_json=False)
def serve_samples(
    session: CommandSession, register: Register = False, api_key: ApiKey = None
) -> Coroutine[Any, Any, int]:
    """Serve the extensions that come with the package: normalize_text, mask_payload, pii_guard,
    mask_pii, and the provider echo.

    Example:  router extension serve-samples --register
    """
    extensions = [
        extension
        for name in SAMPLES
        for extension in import_extensions(f"router.sdk.samples.extensions.{name}")
    ]
    return _serve(session, extensions, api_key, register=register)


def _serve(
    session: CommandSession, extensions: Sequence[Extension], api_key: str | None, **options: Any
) -> Coroutine[Any, Any, int]:
    settings, ready = (
        session.settings,
        {
            "subjects": [extension.subject for extension in extensions],
            "ids": [extension.id for extension in extensions],
        },
    )
    if api_key is None and settings.admin.api_key is not None:
        api_key = settings.admin.api_key.get_secret_value()
    server = ExtensionServer(
        *extensions,
        nats=settings.nats,
        api_key=api_key,
        reply_prefixes=settings.reply.prefixes,
        **options,
    )
    return session.serve(
        server.run(lambda nats_url: announce_event("extensions.ready", nats_url=nats_url, **ready))
    )


def _parse_instance(text: str) -> tuple[str, int]:
    instance, equals, weight = text.partition("=")
    if equals and not weight.isdecimal():
        raise typer.BadParameter(f"{text} is not like blue=30", param_hint="--instance")
    return instance, int(weight) if equals else 100
