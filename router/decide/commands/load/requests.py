"""The requests of a load: lines of a file, or one that is made of a payload; each checked before
the first is sent.

    {"tenant_id": "acme", "payload": …, "request_id": "old"}       a line
    {"request_id":"<ID>","tenant_id":"acme","payload":…}           what is sent, again and again
                        └── kept as it is, byte by byte ──┘

A request that is sent twice with one id is answered from the router's memory, and would measure
that. So each has an id of its own: `request_id` is replaced, `idempotency_key` left out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import typer
from msgspec import Raw

from router.contracts.codec import UNREADABLE_ERRORS, text_of
from router.contracts.raw_json import write_payload
from router.core import ids
from router.core.message import NO_HEADERS, Message
from router.core.outcome import Fault
from router.decide.model.read import RequestLimits, read
from router.shell.options import read_bytes, read_payload

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_REQUESTS = 100_000
OPENING = b'{"request_id":"'
REQUEST_ID, IDEMPOTENCY_KEY = "request_id", "idempotency_key"
FILE, PAYLOAD = "--requests", "--payload"

DEFAULT_PAYLOAD = "128"
DEFAULT_TENANT = DEFAULT_TYPE = "bench"
_SIZE = re.compile(r"([0-9]{1,9}) ?(B|KB|KiB|MB|MiB)?", re.IGNORECASE)
_UNIT_BYTES = {"": 1, "b": 1, "kb": 1_000, "kib": 1_024, "mb": 1_000_000, "mib": 1_048_576}
_TEXT = "Hello there, what is the weather like in Lisbon this afternoon? "

_read_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class RequestChanges(NamedTuple):
    """What the options say of every request, whatever it says itself; None: what it says."""

    tenant: str | None = None
    policy: str | None = None
    is_pushed: bool = False

    def list_fields(self) -> dict[str, Raw]:
        given: dict[str, object] = {"tenant_id": self.tenant, "policy_id": self.policy}
        if self.is_pushed:
            given["push_assignment"] = True
        return {
            name: Raw(msgspec.json.encode(value))
            for name, value in given.items()
            if value is not None
        }


class RequestBodies(NamedTuple):
    """What follows the id in each request, and the name of its place for a refusal."""

    rests: Sequence[bytes]
    places: Sequence[str]
    option: str

    def check(self, limits: RequestLimits, max_payload: int) -> None:
        """Raises BadParameter for the first that a router would refuse as it stands. `max_payload`:
        bytes that the server takes.
        """
        for rest, place in zip(self.rests, self.places, strict=True):
            fault = find_fault(rest, limits, max_payload)
            if fault is not None:
                raise typer.BadParameter(f"{place}: {fault}", param_hint=self.option)


def write_request(request_id: str, rest: bytes) -> bytes:
    return OPENING + request_id.encode() + rest


def build_head(request_id: str, inbox: str) -> bytes:
    """The headers of a request, as `router decide --file` sends them; `head_of` costs more."""
    return f"NATS/1.0\r\nNats-Msg-Id: {request_id}\r\nReply-To: {inbox}\r\n\r\n".encode()


def find_fault(rest: bytes, limits: RequestLimits, max_payload: int) -> str | None:
    """Why a router would refuse it; None: it would not, as far as these settings tell."""
    longest = "r" * ids.MAX_NAME
    body = write_request(longest, rest)
    if (size := len(body) + len(build_head(longest, longest))) > max_payload:
        return f"{size} bytes with its headers: the server takes {max_payload}"
    asked = read(Message("load", body, NO_HEADERS, "", "", 0, time.time_ns(), 1, ""), limits).asked
    return asked.message if isinstance(asked, Fault) else None


# -- A file.


def read_requests(name: str, changes: RequestChanges) -> RequestBodies:
    """The requests of a file, one JSON object a line. Raises BadParameter."""
    lines = [*_list_lines(read_bytes(name, FILE, MAX_FILE_BYTES))]
    if not 0 < len(lines) <= MAX_REQUESTS:
        raise typer.BadParameter(
            f"{name} has {len(lines)} requests: 1 … {MAX_REQUESTS} are sent in turn",
            param_hint=FILE,
        )
    given = changes.list_fields()
    rests = [_change(line, f"{name}, line {number}", given) for number, line in lines]
    return RequestBodies(rests, [f"{name}, line {number}" for number, _ in lines], FILE)


def _list_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line that has something, and its number."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if stripped := line.strip():
            yield number, stripped


def _change(line: bytes, place: str, given: dict[str, Raw]) -> bytes:
    """What follows the id in a request. Raises BadParameter if the line is no JSON object."""
    try:
        fields = {**_read_fields(line), **given}
    except UNREADABLE_ERRORS as exc:
        raise typer.BadParameter(f"{place}: no JSON object: {exc}", param_hint=FILE) from None
    for replaced in (REQUEST_ID, IDEMPOTENCY_KEY):
        fields.pop(replaced, None)
    rest = msgspec.json.encode(fields)[1:]
    return b'",' + rest if fields else b'"' + rest


# -- A payload.


def make_request(payload: str | None, message_type: str, changes: RequestChanges) -> RequestBodies:
    """One request with this payload: text, JSON, a file's content, or so many bytes of text. Raises
    BadParameter.
    """
    content = read_sized_payload(payload or DEFAULT_PAYLOAD)
    text, encoding = text_of(content) if isinstance(content, bytes) else (content, None)
    message = {
        "tenant_id": DEFAULT_TENANT if changes.tenant is None else changes.tenant,
        "message_type": message_type,
        "payload": text,
    }
    if encoding is not None:
        message["payload_encoding"] = encoding
    given = changes._replace(tenant=None).list_fields()
    rest = _change(write_payload({"message": message}), PAYLOAD, given)
    return RequestBodies([rest], ["the request"], PAYLOAD)


def read_sized_payload(text: str) -> object:
    """A number is a size, as 300, 16KB or 1MiB; all else is a payload as of `router decide`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return read_payload(text)
    size = int(match[1]) * _UNIT_BYTES[(match[2] or "").lower()]
    if size > MAX_FILE_BYTES:
        raise typer.BadParameter(f"at most {MAX_FILE_BYTES} bytes", param_hint=PAYLOAD)
    return (_TEXT * (size // len(_TEXT) + 1))[:size]
