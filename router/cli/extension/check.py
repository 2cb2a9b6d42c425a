"""`router extension check`: the contract, tried on an extension that runs, in whatever language."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_table
from router.cli.session import jetstream_of, settings_of
from router.cli.typed import message_of, object_of

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.connection import Connection
    from router.sdk.extension.contract import ContractCase, Reaction

COLUMNS = ("check", "verdict", "why")
OK, WARN, FAIL = "ok", "warn", "fail"


def check(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Where it listens, as beamline.ext.pre.normalize_text.v1.")],
    *,
    type_: Annotated[str | None, typer.Option("--type", help="pre, validator, post or provider. Default: as the subject says.")] = None,
    payload: Annotated[str, typer.Option(metavar="JSON|TEXT|@FILE", help="One that it can do something with.")] = '"hello"',
    extension_config: Annotated[str, typer.Option(metavar="JSON|@FILE", help="What a policy would say to it.")] = "{}",
    timeout_ms: Annotated[int, typer.Option(help="How long it may take to answer.", min=10, max=60_000)] = 2000,
    strict: Annotated[bool, typer.Option("--strict", help="What it should do, it must do.")] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send good requests and bad ones, and see whether the router could work with the answers.

    Exit status: 0 it can be used, 1 something failed, 3 nobody listens there. The requests come from the tenant contract-check.

    Example:  router extension check beamline.ext.validate.pii_guard.v1 --payload '"my text"'
    """
    from router.sdk.extension.contract import cases

    kind, extension_id = _named(subject, type_)
    tried = cases(kind, extension_id, message_of(payload), object_of(extension_config, "--extension-config"))
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_check(settings, subject, tried, timeout_s=timeout_ms / 1000, strict=strict, as_json=as_json))


async def _check(settings: Settings, subject: str, tried: Sequence[ContractCase], *, timeout_s: float, strict: bool, as_json: bool) -> int:
    found = []
    async with jetstream_of(settings) as jetstream:
        for case in tried:
            found.append(await _verdict(jetstream.connection, subject, case, timeout_s, strict))
    is_usable = all(verdict != FAIL for _, verdict, _ in found)
    if as_json:
        checks = [{"check": name, "verdict": verdict, "why": why} for name, verdict, why in found]
        print_json({"subject": subject, "ok": is_usable, "checks": checks})
    else:
        print_table(COLUMNS, found)
    return ends.OK if is_usable else ends.NO


async def _verdict(connection: Connection, subject: str, case: ContractCase, timeout_s: float, strict: bool) -> tuple[str, str, str | None]:
    if len(case.data) > connection.max_payload - 1024:
        return case.name, WARN, f"not tried: this server takes at most {connection.max_payload} bytes"
    heard = await asyncio.gather(*(_heard(connection, subject, case.data, case.headers, timeout_s) for _ in range(case.times)))
    why = next((why for one in heard if (why := _silent(timeout_s) if one is None else case.judge(one)) is not None), None)
    if why is None:
        return case.name, OK, None
    return case.name, FAIL if case.is_must or strict else WARN, why


async def _heard(connection: Connection, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float) -> Reaction | None:
    """What came back; None: nothing in time. Raises Unanswered where nobody listens."""
    import nats.errors

    from router.contracts.extension import ERROR, ERROR_CODE
    from router.errors import Unanswered
    from router.sdk.extension.contract import Reaction

    try:
        answer = await connection.request(subject, data, timeout=timeout_s, headers=dict(headers) or None)
    except nats.errors.NoRespondersError:
        raise Unanswered(f"nobody listens on {subject}") from None
    except (nats.errors.Error, TimeoutError):
        return None
    said = answer.headers or {}
    code = said.get(ERROR_CODE)
    return Reaction(answer.data, _number(code) if code is not None else None, said.get(ERROR))


def _number(code: str) -> int:
    return int(code) if code.isdecimal() and len(code) == 3 else 0


def _silent(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} s"


def _named(subject: str, type_: str | None) -> tuple[str, str]:
    """The kind and the id that a subject says, or the option's kind."""
    from router import ids
    from router.extensions.entry import KINDS, SUBJECTS

    if not ids.is_literal_subject(subject):
        raise typer.BadParameter("is not one literal subject", param_hint="SUBJECT")
    if type_ is not None and type_ not in KINDS:
        raise typer.BadParameter(f"is not one of {', '.join(KINDS)}", param_hint="--type")
    kind = next((kind for kind, prefix in SUBJECTS.items() if subject.startswith(prefix)), None)
    if kind is None and type_ is None:
        raise typer.BadParameter(f"{subject} does not say what it is; give --type", param_hint="SUBJECT")
    rest = subject.removeprefix(SUBJECTS[kind]) if kind is not None else subject.rpartition(".")[2]
    return type_ or kind or "", rest.partition(".")[0]
