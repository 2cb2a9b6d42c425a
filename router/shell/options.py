"""Options that several commands share, and how values of options are read: text or JSON, `@FILE`
for a file's content, `-` for standard input.
"""

from __future__ import annotations

import getpass
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from msgspec import Raw

from router.contracts.codec import describe_mark, value_of
from router.contracts.exact_json import WrittenObject, require_json
from router.contracts.raw_json import RawJson, read_raw
from router.core import ids

NatsUrl = Annotated[
    str | None,
    typer.Option(
        "--nats-url",
        metavar="URL",
        help="The NATS server. Default: NATS_URL, else nats://localhost:4222.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="JSON for programs instead of text for people.")
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings in TOML. Default: ROUTER_CONFIG_FILE.",
        dir_okay=False,
    ),
]
Dsn = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help="The context's database. Better in ROUTER_MAILBOX__DSN: other users can see options.",
        show_default=False,
    ),
]
ContextName = Annotated[
    str | None, typer.Option("--context", help="The context. Default: mailbox.context.")
]
Monitors = Annotated[
    list[str] | None,
    typer.Option(
        "--monitor",
        metavar="URL",
        help=(
            "A server's monitoring port, like http://127.0.0.1:8222; may be given for each "
            "server. Default: nats.monitor."
        ),
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        metavar="N",
        help="Processes on the same durables, under one parent. Default: 1, no parent.",
    ),
]


def _refuse_workers(value: str | None) -> None:
    if value is not None:
        raise typer.BadParameter(
            "--workers is called --processes now; a worker is a program that executes assignments"
        )


RenamedWorkers = Annotated[
    str | None, typer.Option("--workers", hidden=True, callback=_refuse_workers)
]
Author = Annotated[
    str | None,
    typer.Option("--author", help="Who writes it, for the history. Default: your login name."),
]
PoliciesDir = Annotated[
    Path | None,
    typer.Option(
        "--policies",
        metavar="DIR",
        help=(
            "Directory of <tenant>/<policy>.json and _shared/: stores policies that the server "
            "never had; replaces only the samples."
        ),
    ),
]


def check_request_id(tenant: str, request_id: str) -> None:
    """Raises BadParameter if the tenant is no id, or the request's id is none."""
    check_tenant(tenant)
    if not ids.is_opaque(request_id):
        raise typer.BadParameter(
            "an id is 1..128 printable ASCII characters without spaces", param_hint="REQUEST_ID"
        )


def check_tenant(tenant: str) -> None:
    """Raises BadParameter if it is no id."""
    if not ids.is_scoped(tenant):
        raise typer.BadParameter(
            "a tenant is an id: A-Z a-z 0-9 _ . : - without . or _ in front", param_hint="--tenant"
        )


# -- Read values of options: text or JSON, `@FILE` for a file's content, `-` for standard input.
#
# Every command reads a payload like that. A value that cannot be read is wrong use, and the message
# names its option.


PAYLOAD = "Text or JSON; @FILE reads a file, - standard input."


def read_payload(text: str) -> RawJson | str | bytes:
    """Return JSON as it is written, with every digit; else text, else bytes."""
    data = _read_content(text, "--payload")
    return read_raw(data) or value_of(data)


def read_text_payload(text: str) -> RawJson | str:
    """Read a payload that must be JSON or text. Raises BadParameter for other bytes."""
    value = read_payload(text)
    if isinstance(value, bytes):
        raise typer.BadParameter("is neither JSON nor UTF-8 text", param_hint="--payload")
    return value


def read_prompt(text: str) -> str | bytes:
    """Return text, even if it looks like JSON."""
    return value_of(_read_content(text, "--prompt"))


def read_json(text: str, option: str) -> Any:
    data = _read_content(text, option)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise typer.BadParameter(
            describe_mark(data) or f"is not JSON: {exc}", param_hint=option
        ) from None


def read_foreign(text: str, option: str) -> Raw:
    """Read the JSON of a payload that is sent on as it stands, with every digit."""
    data = _read_content(text, option)
    try:
        require_json(data)
    except ValueError as exc:
        raise typer.BadParameter(f"is not JSON: {exc}", param_hint=option) from None
    return Raw(data)


def read_foreign_object(text: str, option: str) -> WrittenObject:
    """The same of an object."""
    try:
        return WrittenObject(bytes(read_foreign(text, option)))
    except TypeError:
        raise typer.BadParameter("is not a JSON object", param_hint=option) from None


def read_object(text: str, option: str) -> dict[str, Any]:
    value = read_json(text, option)
    if not isinstance(value, dict):
        raise typer.BadParameter("is not a JSON object", param_hint=option)
    return value


def read_pairs(pairs: Iterable[str], option: str) -> dict[str, object]:
    """Read `KEY=VALUE` of a repeatable option; VALUE is text or JSON."""
    values: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        values[name] = _parse_json_or(value.encode("utf-8", "surrogateescape"), value)
    return values


def read_bytes(name: str | Path, option: str, most: int = -1) -> bytes:
    """Return a file's content; `-` is standard input. `most`: bytes, and more are refused unread;
    -1: any number.
    """
    try:
        with (
            interruptible(),
            nullcontext(sys.stdin.buffer) if str(name) == "-" else Path(name).open("rb") as file,
        ):
            data = file.read(most + 1 if most >= 0 else -1)
    except OSError as exc:
        raise typer.BadParameter(
            f"{name} cannot be read: {exc.strerror}", param_hint=option
        ) from None
    if 0 <= most < len(data):
        raise typer.BadParameter(f"{name} is larger than {most} bytes", param_hint=option)
    return data


def choose_author(given: str | None) -> str:
    """Return the given author, else the logged-in user."""
    try:
        return given or getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "unknown"


def confirm(question: str) -> bool:
    """Ask on standard error. The end of the input is a no. Raises KeyboardInterrupt at Ctrl-C, of
    which typer would make status 1.
    """
    try:
        with interruptible():
            return typer.confirm(question, err=True)
    except typer.Abort as exc:
        if isinstance(exc.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return False


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end what blocks here: asyncio only cancels the task, which a blocked task does not
    notice.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _read_content(text: str, option: str) -> bytes:
    if text == "-" or text.startswith("@"):
        return read_bytes(text.removeprefix("@"), option)
    return text.encode("utf-8", "surrogateescape")


def _parse_json_or(data: bytes, otherwise: object) -> object:
    with suppress(orjson.JSONDecodeError):
        return orjson.loads(data)
    return otherwise
