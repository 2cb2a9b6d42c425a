"""`router provider invoke` asks a provider through a router, and prints the answer at once or piece
by piece; `stats` stands in `policies.commands.list_show`.
"""

from __future__ import annotations

from typing import Annotated, Any

import orjson
import typer

from router.contracts.provider import ProviderResponse, response_bytes
from router.contracts.provider_chunk import StreamChunk, chunk_bytes
from router.sdk import Client
from router.sdk.providers import InvocationFailed
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import read_pairs, read_prompt
from router.shell.output import print_json_lines, printable


@command()
async def invoke(
    session: CommandSession,
    provider_id: Annotated[
        str, typer.Argument(metavar="ID", help="The provider's id in the registry.")
    ],
    *,
    prompt: Annotated[str, typer.Option(help="The prompt; @FILE reads a file, - standard input.")],
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")],
    stream: Annotated[bool, typer.Option("--stream", help="Print the answer as it comes.")] = False,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="VALUE text or JSON; repeatable.")
    ] = None,
    context: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="VALUE text or JSON; repeatable.")
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long it may take in all.", min=0.001
        ),
    ] = 30.0,
) -> int:
    """Ask a provider once. Prints its answer, with --stream as it arrives; with --json the whole
    response, a line for each chunk.

    Exit status: 0 answered, 1 it failed or is not registered, 2 wrong use, 3 no router answers.

    Example:  router provider invoke echo --tenant acme --prompt hello --stream
    """
    asked: dict[str, Any] = {
        "provider_id": provider_id,
        "tenant_id": tenant,
        "prompt": read_prompt(prompt),
        "parameters": read_pairs(parameter or (), "--parameter"),
        "context": read_pairs(context or (), "--context"),
        "timeout": timeout_s,
    }
    async with Client(session.settings.nats) as client:
        if not stream:
            return _print_response(await client.invoke(**asked), session.as_json)
        try:
            async for chunk in client.invoke_stream(**asked):
                _print_chunk(chunk, session.as_json)
        except InvocationFailed as exc:
            # its last chunk, which says why, and what was billed
            if session.as_json and exc.metadata:
                _print_chunk(StreamChunk(done=True, metadata=exc.metadata), as_json=True)
            raise
    if not session.as_json:
        print(flush=True)
    return exit_codes.OK


def _print_response(response: ProviderResponse, as_json: bool) -> int:
    if as_json:
        print_json_lines([orjson.loads(response_bytes(response))])
    elif response.ok:
        print(_decode_text(response.body))
    else:
        exit_codes.complain(_describe_failure(response))
    return exit_codes.OK if response.ok else exit_codes.NO


def _print_chunk(chunk: StreamChunk, as_json: bool) -> None:
    if as_json:
        print_json_lines([orjson.loads(chunk_bytes(chunk))])
    else:
        print(_decode_text(chunk.data), end="", flush=True)


def _describe_failure(response: ProviderResponse) -> str:
    hint = (
        ": `router extension list` shows the registered ones"
        if response.error_code == "extension_not_found"
        else ""
    )
    return f"{response.error_code}: {response.error_message}{hint}"


def _decode_text(data: str | bytes) -> str:
    return printable(data if isinstance(data, str) else data.decode("utf-8", "replace"))
