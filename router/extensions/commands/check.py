"""`router extension check`: test a running extension against the contract, whatever its language."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.option_values import read_object, read_text_payload
from router.shell.output import print_table

if TYPE_CHECKING:
    from router.delivery.wire.connection import Connection
    from router.sdk.extension.contract import ContractCase, Reaction

COLUMNS = ("check", "verdict", "why")
OK, WARN, FAIL = "ok", "warn", "fail"


@command()
async def check(
    session: CommandSession,
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Where it listens, as beamline.ext.pre.normalize_text.v1.")],
    *,
    type_: Annotated[str | None, typer.Option("--type", help="pre, validator, post or provider. Default: as the subject says.")] = None,
    payload: Annotated[str, typer.Option(metavar="JSON|TEXT|@FILE", help="A payload that it can handle.")] = '"hello"',
    extension_config: Annotated[str, typer.Option(metavar="JSON|@FILE", help="The config that a policy would send.")] = "{}",
    timeout_ms: Annotated[int, typer.Option(help="How long it may take to answer.", min=10, max=60_000)] = 2000,
    strict: Annotated[bool, typer.Option("--strict", help="Treat recommendations as requirements.")] = False,
) -> int:
    """Send good requests and bad ones, and check whether the router could use the answers.

    Exit status: 0 it can be used, 1 a check failed, 3 no service listens there. The requests come from the tenant contract-check.

    Example:  router extension check beamline.ext.validate.pii_guard.v1 --payload '"my text"'
    """
    from router.sdk.extension.contract import cases

    kind, extension_id = _parse_subject(subject, type_)
    tried = cases(kind, extension_id, read_text_payload(payload), read_object(extension_config, "--extension-config"))
    connection = (await session.open_jetstream()).connection
    found = [await _check_case(connection, subject, case, timeout_ms / 1000, strict) for case in tried]
    is_usable = all(verdict != FAIL for _, verdict, _ in found)
    checks = [{"check": name, "verdict": verdict, "why": why} for name, verdict, why in found]
    session.emit_one({"subject": subject, "ok": is_usable, "checks": checks}, lambda: print_table(COLUMNS, found))
    return exit_codes.OK if is_usable else exit_codes.NO


async def _check_case(
    connection: Connection, subject: str, case: ContractCase, timeout_s: float, strict: bool
) -> tuple[str, str, str | None]:
    if len(case.data) > connection.max_payload - 1024:
        return case.name, WARN, f"not tried: this server takes at most {connection.max_payload} bytes"
    heard = await asyncio.gather(*(_request(connection, subject, case.data, case.headers, timeout_s) for _ in range(case.times)))
    why = next((why for one in heard if (why := _describe_silence(timeout_s) if one is None else case.judge(one)) is not None), None)
    if why is None:
        return case.name, OK, None
    return case.name, FAIL if case.is_must or strict else WARN, why


async def _request(connection: Connection, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float) -> Reaction | None:
    """Return the reaction, or None if there is no answer in time. Raises Unanswered if no service listens."""
    import nats.errors

    from router.contracts.extension import SERVICE_ERROR, SERVICE_ERROR_CODE
    from router.core.errors import Unanswered
    from router.sdk.extension.contract import Reaction

    try:
        answer = await connection.request(subject, data, timeout=timeout_s, headers=dict(headers) or None)
    except nats.errors.NoRespondersError:
        raise Unanswered(f"no service listens on {subject}") from None
    except (nats.errors.Error, TimeoutError):
        return None
    answered = answer.headers or {}
    code = answered.get(SERVICE_ERROR_CODE)
    return Reaction(answer.data, _parse_code(code) if code is not None else None, answered.get(SERVICE_ERROR))


def _parse_code(code: str) -> int:
    return int(code) if code.isdecimal() and len(code) == 3 else 0


def _describe_silence(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} s"


def _parse_subject(subject: str, type_: str | None) -> tuple[str, str]:
    """Return the kind and the id that a subject names; the option's kind wins."""
    from router.core import ids
    from router.extensions.model.entry import KINDS, SUBJECT_PREFIXES

    if not ids.is_literal_subject(subject):
        raise typer.BadParameter("is not one literal subject", param_hint="SUBJECT")
    if type_ is not None and type_ not in KINDS:
        raise typer.BadParameter(f"is not one of {', '.join(KINDS)}", param_hint="--type")
    kind = next((kind for kind, prefix in SUBJECT_PREFIXES.items() if subject.startswith(prefix)), None)
    if kind is None and type_ is None:
        raise typer.BadParameter(f"{subject} does not say what it is; give --type", param_hint="SUBJECT")
    rest = subject.removeprefix(SUBJECT_PREFIXES[kind]) if kind is not None else subject.rpartition(".")[2]
    return type_ or kind or "", rest.partition(".")[0]
