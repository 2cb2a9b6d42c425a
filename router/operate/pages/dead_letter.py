"""One dead letter whole: what happened, its way, its headers, its payload masked; and the forms
that replay or discard it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

import orjson

from router.contracts import codes
from router.contracts.exact_json import dump_json
from router.contracts.masked_payload import describe_payload
from router.core.legible import shorten
from router.core.masking import MASK, is_masked_key
from router.core.repeated_headers import list_lines
from router.operate.dead_letters import DeadLetter, show
from router.shell.page_data import (
    Fact,
    FactList,
    FormButton,
    FormField,
    Page,
    PageNotFound,
    PageParams,
    Sources,
    TextBlock,
    WriteForm,
    build_command,
)

MAX_PAYLOAD_TEXT = 65_536  # characters
REPLAYED = (
    "A replay publishes each message again where it failed, once, and removes its dead letter. "
    "It may be stopped."
)
DISCARD_FIELDS = (
    FormField("note", "Note, for the audit; a discard needs one", kind="note"),
    FormField("confirm", "Discard for good", kind="check"),
)


async def read_dead_letter(sources: Sources, params: PageParams) -> Page:
    """One dead letter: what happened, its way, its headers, its payload masked."""
    sequence, stream = params.number("sequence"), sources.settings.streams.dlq.name
    letter = await show(sources.link.jetstream(), stream, sequence)
    if letter is None:
        raise PageNotFound(
            f"There is no dead letter {sequence} in {stream}: it was replayed or "
            "discarded, is too old, or never was."
        )
    lists: list[FactList | TextBlock] = [_list_error(letter), _list_way(letter)]
    headers = [
        Fact(shorten(name), MASK if is_masked_key(name) else value)
        for name, value in list_lines(letter.headers)
    ]
    if headers:
        lists.append(FactList("Headers", headers))
    lists.append(_describe_payload(letter))
    return Page(
        title=f"Dead letter {sequence}",
        lead=letter.original_subject,
        tenant=letter.tenant_id,
        command=build_command("router", "dlq", "show", str(sequence)),
        repair=build_command("router", "dlq", "replay", str(sequence)),
        repair_note=(
            "publishes the message again where it failed, once, and removes the dead letter; "
            "--edit opens its payload first"
        ),
        back=("/dead-letters", "Dead letters"),
        lists=lists,
        forms=_build_forms(sequence),
    )


def _build_forms(sequence: int) -> Sequence[WriteForm]:
    here = f"/dead-letters/{sequence}"
    return (
        WriteForm(
            title="Replay",
            text=REPLAYED,
            fields=(FormField("note", "Note, for the audit", kind="note"),),
            buttons=(FormButton("Replay", f"{here}/replay", "main"),),
            link=(f"{here}/edit", "Edit a copy, and replay that"),
        ),
        WriteForm(
            title="Discard",
            fields=DISCARD_FIELDS,
            buttons=(FormButton("Discard", f"{here}/discard", "danger"),),
        ),
    )


def _list_error(letter: DeadLetter) -> FactList:
    """What is wrong, and what helps, as `router explain` tells it."""
    found = codes.find(letter.code or letter.reason)
    facts = [
        Fact("Reason", letter.reason),
        Fact("Code", letter.code),
        Fact("Error", letter.message),
        Fact("Field", letter.field),
        Fact("Stage", letter.stage),
        Fact("It means", found.means if found is not None else None, kind="prose"),
        *(
            Fact("What to do" if place == 0 else "", text, kind="prose")
            for place, text in enumerate(found.do if found is not None else ())
        ),
    ]
    return FactList("What happened", facts)


def _list_way(letter: DeadLetter) -> FactList:
    source, asked = letter.source, None
    if letter.tenant_id and letter.request_id:
        asked = "/decisions?" + urlencode(
            {"tenant": letter.tenant_id[:512], "request_id": letter.request_id[:512]}
        )
    received = (
        datetime.fromtimestamp(letter.received_ms / 1000, UTC).isoformat()
        if letter.received_ms is not None
        else None
    )
    unconfirmed = (
        ", the first not confirmed: its process died" if source.attempts_unconfirmed else ""
    )
    attempts = (
        f"attempts {source.attempts}, deliveries {source.deliveries}{unconfirmed}"
        if source.stream
        else None
    )
    facts = [
        Fact("Tenant", letter.tenant_id),
        Fact("Request", letter.request_id, asked),
        Fact("Assignment", letter.assignment_id),
        Fact("Message id", letter.msg_id),
        Fact("Trace", letter.trace_id),
        Fact("Received", received, kind="time"),
        Fact("Stood in", f"{source.stream}, sequence {source.sequence}" if source.stream else None),
        Fact("Handled by", source.consumer or None),
        Fact("Tried", attempts),
        Fact("Given up", letter.stored_at, kind="time"),
    ]
    return FactList("Its way", facts)


def _describe_payload(letter: DeadLetter) -> TextBlock | FactList:
    if letter.payload is None:
        return TextBlock("Payload", "", letter.payload_note or "")
    shown = describe_payload(letter.payload)
    if "payload" in shown:
        text = dump_json(shown["payload"], orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
        cut = f"; the first {MAX_PAYLOAD_TEXT:,} characters" if len(text) > MAX_PAYLOAD_TEXT else ""
        note = f"{len(letter.payload):,} bytes, values of secret names hidden{cut}"
        return TextBlock(
            "Payload",
            text[:MAX_PAYLOAD_TEXT],
            f"{note}. {letter.payload_note}" if letter.payload_note else note,
        )
    note = (
        "No JSON object: nothing in it can be masked, so it is not shown. `router dlq show` "
        "shows it."
    )
    size = Fact("Bytes", len(letter.payload), kind="number")
    return FactList(
        "Payload", [size, Fact("SHA-256", shown["payload_sha256"]), Fact("", note, kind="prose")]
    )
