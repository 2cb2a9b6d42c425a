"""`router decide`: ask for a decision, or for many from a file."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Annotated

import orjson
import typer

from router.core.errors import RouterError, Unanswered
from router.sdk import Answer, Client
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import PAYLOAD, read_bytes, read_pairs, read_payload
from router.shell.output import print_json, print_json_lines

OneLine = Annotated[bool, typer.Option("--json", help="The answer on one line, for programs.")]
MAX_CONCURRENT_REQUESTS = 64  # requests of a file that are sent before the first answer


@command(has_json=False)
async def decide(
    session: CommandSession,
    *,
    tenant: Annotated[str | None, typer.Option(help="The tenant of the request.")] = None,
    type_: Annotated[str | None, typer.Option("--type", help="The message's type.")] = None,
    payload: Annotated[str | None, typer.Option(help=PAYLOAD)] = None,
    policy: Annotated[
        str | None, typer.Option(help="The policy that decides. Default: default.")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Routing context, VALUE text or JSON; repeatable."),
    ] = None,
    providers: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="None but this provider; repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Not this provider; repeatable.")
    ] = None,
    request_id: Annotated[
        str | None, typer.Option(help="Asked again with the same id: the same decision.")
    ] = None,
    push: Annotated[
        bool, typer.Option("--push", help="Push an assignment to a worker as well.")
    ] = False,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long to wait for an answer.", min=0.001
        ),
    ] = 5.0,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-", help="One JSON request a line, sent as it is; answers in order."
        ),
    ] = None,
    as_json: OneLine = False,
) -> int:
    """Ask a router, and print its answer: JSON, indented where a person reads it.

    Exit status: 0 decided, 1 the router refused, 2 wrong use, 3 no answer. With --file: the worst
    of them.

    Example:  router decide --tenant acme --type chat --payload '{"text": "hello"}' --context user_id=u-42
    """
    if file is not None:
        if push or any(
            option is not None
            for option in (tenant, type_, payload, policy, context, providers, exclude, request_id)
        ):
            raise typer.BadParameter(
                "--file sends whole requests: give nothing of one with it, but --timeout"
            )
        lines = [line for line in read_bytes(file, "--file").splitlines() if line.strip()]
        return await _decide_many(session, lines, timeout_s)
    if tenant is None or type_ is None or payload is None:
        raise typer.BadParameter("--tenant, --type and --payload are needed, or --file")
    content, facts = read_payload(payload), read_pairs(context or (), "--context")
    async with _open_client(session) as client:
        answer = await client.decide(
            tenant_id=tenant,
            message_type=type_,
            payload=content,
            policy_id=policy,
            context=facts,
            constraints=_build_constraints(providers, exclude),
            request_id=request_id,
            push=push,
            timeout=timeout_s,
        )
    fields = orjson.loads(answer.raw)
    if as_json:
        print_json_lines([fields])
    else:
        print_json(fields)
    return exit_codes.OK if answer.ok else exit_codes.NO


def _build_constraints(
    providers: list[str] | None, exclude: list[str] | None
) -> dict[str, list[str]]:
    lists = {"providers": providers, "excluded_providers": exclude}
    return {name: names for name, names in lists.items() if names}


def _open_client(session: CommandSession) -> Client:
    return Client(session.settings.nats, subject=session.settings.decide.subject)


async def _decide_many(session: CommandSession, lines: list[bytes], timeout_s: float) -> int:
    worst = exit_codes.OK
    under_way: deque[asyncio.Task[tuple[int, object]]] = deque()
    async with _open_client(session) as client:
        for line in lines:
            under_way.append(asyncio.create_task(_ask(client, line, timeout_s)))
            if len(under_way) >= MAX_CONCURRENT_REQUESTS:
                worst = max(worst, await _print_answer(under_way.popleft()))
        while under_way:
            worst = max(worst, await _print_answer(under_way.popleft()))
    return worst


async def _ask(client: Client, line: bytes, timeout_s: float) -> tuple[int, object]:
    try:
        answer: Answer = await client.decide_raw(line, timeout=timeout_s)
    except RouterError as exc:  # only this line failed: the others are still sent
        failure = {"ok": False, "error": {"code": exc.code, "message": str(exc)}}
        return exit_codes.NO_ANSWER if isinstance(exc, Unanswered) else exit_codes.NO, failure
    return exit_codes.OK if answer.ok else exit_codes.NO, orjson.loads(answer.raw)


async def _print_answer(task: asyncio.Task[tuple[int, object]]) -> int:
    status, answer = await task
    print_json_lines([answer])
    return status
