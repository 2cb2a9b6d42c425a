"""`router contract check`: what a reader says of a message, field by field. No server is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from router.contracts.unread_report import UNREAD_KIND
from router.serve.contract.commands.field_report import (
    FieldReport,
    build_readers,
    parse,
    report_fields,
)
from router.serve.contract.contract_document import build_contract_shapes
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import read_bytes, read_pairs
from router.shell.output import print_table

MAX_BYTES = 64 * 1024 * 1024  # the most that a NATS server takes as a message


@command()
def check(
    session: CommandSession,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="The payload of the message, JSON or protobuf; - reads standard input.",
        ),
    ],
    as_: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="decide, answer, result … Default: what it looks like."
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header; may be given again."),
    ] = None,
) -> int:
    """Read a message as the router (or a worker, or a client) would, and print a line for each
    field. No server is asked.

    A field is read, refused, or ignored because no reader knows it. The limits are those of the
    settings: of a message beyond them only that is said. FILE has at most 64 MiB. Exit status: 0
    the message is read, 1 it is refused.

    Example:  router contract check request.json    router contract check - --as result < result.json
    """
    shapes = build_contract_shapes(session.settings)
    readers = build_readers(session.settings, shapes)
    data = read_bytes(file, "FILE", MAX_BYTES)
    message = parse(data, session.settings.max_payload_bytes, session.settings.max_depth)
    name = as_ or guess_name(message)
    if name not in readers:
        raise typer.BadParameter(f"{name} is not one of {', '.join(readers)}", param_hint="--as")
    headers = {key: str(value) for key, value in read_pairs(header or (), "--header").items()}
    report = report_fields(shapes[name], readers[name], data, headers, message)
    fields = {"message": name, "ok": report.is_readable, "fields": to_builtins(report.lines)}
    session.emit_one(fields, lambda: _print_report(name, report))
    return exit_codes.OK if report.is_readable else exit_codes.NO


def _print_report(name: str, report: FieldReport) -> None:
    if report.lines:
        print_table(
            ("field", "verdict", "why"),
            ((line.field, line.verdict, line.why) for line in report.lines),
        )
    print(f"{'read' if report.is_readable else 'refused'} as {name}")


# The first of these whose fields are all there.
MARKS: tuple[tuple[str, frozenset[str]], ...] = (
    ("answer", frozenset({"ok"})),
    ("assignment", frozenset({"executor", "job"})),
    ("usage", frozenset({"event_type"})),
    ("alert", frozenset({"alert_id"})),
    ("audit", frozenset({"via", "command", "target"})),
    ("violation", frozenset({"subscription", "rule"})),
    ("dead-letter", frozenset({"original_payload_hash"})),
    ("envelope", frozenset({"schema_version", "actor_kind"})),
    ("heartbeat", frozenset({"worker_id"})),
    ("provider-response", frozenset({"request_id", "status", "body"})),
    ("ingress-ack", frozenset({"status", "timestamp_ms"})),
    ("result", frozenset({"status", "latency_ms"})),
    ("ack", frozenset({"assignment_id", "status"})),
    ("extension-request", frozenset({"trace_id", "payload", "metadata", "config"})),
    ("provider-call", frozenset({"prompt", "parameters", "context"})),
    ("provider-request", frozenset({"provider_id", "tenant_id"})),
    ("provider-answer", frozenset({"output"})),
    ("chunk", frozenset({"done"})),
    ("extension-verdict", frozenset({"valid"})),
    ("unread-report", frozenset({"reason", "payload_ref"})),
)
KINDS = {
    "exec_result": "result",
    "exec_assignment_ack": "ack",
    "provider_request": "provider-request",
    UNREAD_KIND: "unread-report",
}  # of envelopes
VERDICTS = ("ok", "reject")
DEFAULT = "decide"


def guess_name(message: Mapping[str, Any] | None) -> str:
    """The name of the message's shape. `message`: as JSON shows it, None: it is no object, or
    cannot be read.
    """
    if message is None:
        return DEFAULT
    kind, inner = message.get("kind"), message.get("data")
    if isinstance(kind, str) and isinstance(inner, dict):
        return KINDS.get(kind) or ("heartbeat" if "worker_id" in inner else DEFAULT)
    if message.get("status") in VERDICTS and "assignment_id" not in message:
        return "extension-verdict"
    return next((name for name, marks in MARKS if marks <= message.keys()), DEFAULT)
