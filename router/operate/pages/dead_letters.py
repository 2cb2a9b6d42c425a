"""Dead letters by cause, and those of one cause; one whole: what happened, its way, its headers, its
payload masked; and the forms that replay or discard them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlencode

import orjson

from router.contracts import codes
from router.contracts.exact_json import dump_json
from router.contracts.payload_display import describe_payload
from router.core.header_names import list_lines
from router.core.legible import shorten
from router.core.masking import MASK, is_masked_key
from router.operate.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterHead,
    group_by,
    read_heads,
    show,
)
from router.operate.views import DEAD_LETTERS, make_groups_view
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
from router.shell.table import Row, TableFilter

MAX_COUNTED = 100_000  # of the newest sequences
MAX_LISTED = 1_000
LOOKED = (2 * MAX_LISTED, MAX_COUNTED)  # newest sequences that a list of single ones reads
EACH = "each"
FILTERS = (
    TableFilter("subject", "Subject", "wildcards * and >"),
    TableFilter("reason", "Reason"),
    TableFilter("code", "Code"),
    TableFilter("tenant", "Tenant"),
    TableFilter("since", "Since", "10m, 2h, 7d"),
)
EMPTY = (
    "No dead letters. What fails for good is stored here with its cause; nothing has, or what "
    "did was replayed or discarded."
)
REPAIR_NOTE = "says what a replay would send; without --dry-run it is sent, each message once"
Options = dict[str, str | None]  # of the command that shows the same
Heads = AsyncIterator[Sequence[DeadLetterHead]]
ReadNewest = Callable[[int], Heads]  # those that match among so many of the newest sequences
NO_MATCH = "No dead letter matches. Take a filter away to see more."
MAX_PAYLOAD_TEXT = 65_536  # characters
REPLAYED = (
    "A replay publishes each message again where it failed, once, and removes its dead letter. "
    "It may be stopped."
)
DISCARD_FIELDS = (
    FormField("note", "Note, for the audit; a discard needs one", kind="note"),
    FormField("confirm", "Discard for good", kind="check"),
)


async def read_dead_letters(sources: Sources, params: PageParams) -> Page:
    """Grouped by subject, reason and code; with `show=each` one by one, the newest first."""
    options = {name: params.text(name) for name in ("subject", "reason", "code", "tenant")}
    wanted = DeadLetterFilter(**options, since=params.instant("since"))
    options["since"] = params.text("since")
    jetstream, stream = sources.link.jetstream(), sources.settings.streams.dlq.name
    info = await jetstream.stream(stream)
    total = info["state"]["messages"] if info is not None else 0
    note = (
        f"Counted among the newest {MAX_COUNTED:,} sequences of {total:,} dead letters."
        if total > MAX_COUNTED
        else ""
    )
    if params.text("show") == EACH:
        return await _read_each(partial(read_heads, jetstream, stream, wanted), options, note)
    heads = read_heads(jetstream, stream, wanted, MAX_COUNTED)
    lead = f"{total:,} in {stream}, by cause"
    return await _read_groups(
        heads,
        params,
        options,
        lead=lead,
        empty=NO_MATCH if total or any(options.values()) else EMPTY,
        note=note,
    )


async def _read_each(read: ReadNewest, options: Options, note: str) -> Page:
    newest = await _find_newest(read)
    return Page(
        title="Dead letters, one by one",
        command=build_command("router", "dlq", "list", **options),
        forms=(_build_form(options, has_boxes=True),),
        repair=_build_replay(options),
        repair_note=REPAIR_NOTE,
        back=("/dead-letters", "Dead letters"),
        table=DEAD_LETTERS.make_table(
            reversed(newest),
            empty=NO_MATCH,
            filters=(*FILTERS, TableFilter("show", "Show", is_hidden=True)),
            choose="sequence",
            note=f"The newest {MAX_LISTED:,} of them. {note}"
            if len(newest) == MAX_LISTED
            else note,
        ),
    )


async def _read_groups(
    heads: Heads, params: PageParams, options: Options, *, lead: str, empty: str, note: str
) -> Page:
    groups = await group_by(heads, _cause_of)
    view = make_groups_view(
        ("subject", "reason", "code"), links=lambda group: _link_group(group, params)
    )
    return Page(
        title="Dead letters",
        lead=lead,
        command=build_command("router", "dlq", "list", "--group", **options),
        forms=(_build_form(options, has_boxes=False),) if groups else (),
        repair=_build_replay(options) if groups else "",
        repair_note=REPAIR_NOTE,
        table=view.make_table(groups, empty=empty, filters=FILTERS, note=note),
    )


async def _find_newest(read: ReadNewest) -> Sequence[DeadLetterHead]:
    """The newest that match, oldest first. Few sequences are read first: most often they are
    enough.
    """
    newest: deque[DeadLetterHead] = deque(maxlen=MAX_LISTED)
    for looked in LOOKED:
        newest.clear()
        async for batch in read(looked):
            newest.extend(batch)
        if len(newest) == MAX_LISTED:
            break
    return newest


def _build_form(options: Options, *, has_boxes: bool) -> WriteForm:
    """For those that are chosen, or all that match the filter of the address."""
    those = " ".join(f"{name}={value}" for name, value in options.items() if value)
    hidden = [FormField(name, value=value) for name, value in options.items() if value]
    every = f"all that match {those}" if those else "all dead letters"
    return WriteForm(
        title="Mend",
        name="chosen",
        text=REPLAYED,
        fields=(
            *hidden,
            FormField("all", f"{every}, when none is chosen" if has_boxes else every, kind="check"),
            *DISCARD_FIELDS,
        ),
        buttons=(
            FormButton("Replay", "/dead-letters/replay", "main"),
            FormButton("Discard", "/dead-letters/discard", "danger"),
        ),
    )


def _build_replay(options: Options) -> str:
    return build_command(
        "router",
        "dlq",
        "replay",
        *(() if any(options.values()) else ("--all",)),
        "--dry-run",
        **options,
    )


def _cause_of(head: DeadLetterHead) -> tuple[str | None, ...]:
    return head.original_subject, head.reason, head.code or None


def _link_group(group: DeadLetterGroup, params: PageParams) -> Row:
    subject, reason, code = group.kind
    more = {name: value for name in ("tenant", "since") if (value := params.text(name))}
    named = {"subject": subject, "reason": reason, "code": code, **more, "show": EACH}
    return {
        "address": "?" + urlencode({name: value[:512] for name, value in named.items() if value}),
        "last_address": f"/dead-letters/{group.last_sequence}",
    }


# -- One dead letter.


async def read_dead_letter(sources: Sources, params: PageParams) -> Page:
    """One dead letter: what happened, its way, its headers, its payload masked."""
    sequence, stream = params.number("sequence"), sources.settings.streams.dlq.name
    dead_letter = await show(sources.link.jetstream(), stream, sequence)
    if dead_letter is None:
        raise PageNotFound(
            f"There is no dead letter {sequence} in {stream}: it was replayed or "
            "discarded, is too old, or never was."
        )
    lists: list[FactList | TextBlock] = [_list_error(dead_letter), _list_way(dead_letter)]
    headers = [
        Fact(shorten(name), MASK if is_masked_key(name) else value)
        for name, value in list_lines(dead_letter.headers)
    ]
    if headers:
        lists.append(FactList("Headers", headers))
    lists.append(_describe_payload(dead_letter))
    return Page(
        title=f"Dead letter {sequence}",
        lead=dead_letter.original_subject,
        tenant=dead_letter.tenant_id,
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


def _list_error(dead_letter: DeadLetter) -> FactList:
    """What is wrong, and what helps, as `router explain` tells it."""
    code = codes.find(dead_letter.code or dead_letter.reason)
    facts = [
        Fact("Reason", dead_letter.reason),
        Fact("Code", dead_letter.code),
        Fact("Error", dead_letter.message),
        Fact("Field", dead_letter.field),
        Fact("Stage", dead_letter.stage),
        Fact("It means", code.means if code is not None else None, kind="prose"),
        *(
            Fact("What to do" if place == 0 else "", text, kind="prose")
            for place, text in enumerate(code.do if code is not None else ())
        ),
    ]
    return FactList("What happened", facts)


def _list_way(dead_letter: DeadLetter) -> FactList:
    source, asked = dead_letter.source, None
    if dead_letter.tenant_id and dead_letter.request_id:
        asked = "/decisions?" + urlencode(
            {"tenant": dead_letter.tenant_id[:512], "request_id": dead_letter.request_id[:512]}
        )
    received = (
        datetime.fromtimestamp(dead_letter.received_ms / 1000, UTC).isoformat()
        if dead_letter.received_ms is not None
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
        Fact("Tenant", dead_letter.tenant_id),
        Fact("Request", dead_letter.request_id, asked),
        Fact("Assignment", dead_letter.assignment_id),
        Fact("Message id", dead_letter.msg_id),
        Fact("Trace", dead_letter.trace_id),
        Fact("Received", received, kind="time"),
        Fact("Stood in", f"{source.stream}, sequence {source.sequence}" if source.stream else None),
        Fact("Handled by", source.consumer or None),
        Fact("Tried", attempts),
        Fact("Given up", dead_letter.stored_at, kind="time"),
    ]
    return FactList("Its way", facts)


def _describe_payload(dead_letter: DeadLetter) -> TextBlock | FactList:
    if dead_letter.payload is None:
        return TextBlock("Payload", "", dead_letter.payload_note or "")
    shown = describe_payload(dead_letter.payload)
    if "payload" in shown:
        text = dump_json(shown["payload"], orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
        cut = f"; the first {MAX_PAYLOAD_TEXT:,} characters" if len(text) > MAX_PAYLOAD_TEXT else ""
        note = f"{len(dead_letter.payload):,} bytes, values of secret names hidden{cut}"
        return TextBlock(
            "Payload",
            text[:MAX_PAYLOAD_TEXT],
            f"{note}. {dead_letter.payload_note}" if dead_letter.payload_note else note,
        )
    note = (
        "No JSON object: nothing in it can be masked, so it is not shown. `router dlq show` "
        "shows it."
    )
    size = Fact("Bytes", len(dead_letter.payload), kind="number")
    return FactList(
        "Payload", [size, Fact("SHA-256", shown["payload_sha256"]), Fact("", note, kind="prose")]
    )
