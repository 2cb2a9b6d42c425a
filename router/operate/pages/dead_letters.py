"""Dead letters by cause, and those of one cause. One whole: `dead_letter`."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from urllib.parse import urlencode

from router.operate.dead_letters import (
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterHead,
    group_by,
    read_heads,
)
from router.operate.pages.dead_letter import DISCARD_FIELDS, REPLAYED
from router.operate.views import DEAD_LETTERS
from router.shell.page_data import (
    FormButton,
    FormField,
    Page,
    PageParams,
    Sources,
    WriteForm,
    build_command,
)
from router.shell.table import Column, Row, Table, TableFilter

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
GROUP_COLUMNS = (
    Column("subject", "Subject", href="address"),
    Column("reason", "Reason"),
    Column("code", "Code"),
    Column("count", "Dead letters", "number"),
    Column("oldest", "Oldest", "time"),
    Column("newest", "Newest", "time"),
    Column("last_sequence", "Last", "id", "last_address"),
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
        table=Table(
            columns=DEAD_LETTERS.page_columns,
            rows=[DEAD_LETTERS.build_row(head) for head in reversed(newest)],
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
    return Page(
        title="Dead letters",
        lead=lead,
        command=build_command("router", "dlq", "list", "--group", **options),
        forms=(_build_form(options, has_boxes=False),) if groups else (),
        repair=_build_replay(options) if groups else "",
        repair_note=REPAIR_NOTE,
        table=Table(
            columns=GROUP_COLUMNS,
            rows=[_build_group_row(group, params) for group in groups],
            empty=empty,
            filters=FILTERS,
            note=note,
        ),
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


def _cause_of(head: DeadLetterHead) -> tuple[str, ...]:
    return head.original_subject, head.reason, head.code or ""


def _build_group_row(group: DeadLetterGroup, params: PageParams) -> Row:
    subject, reason, code = group.kind
    more = {name: value for name in ("tenant", "since") if (value := params.text(name))}
    named = {"subject": subject, "reason": reason, "code": code, **more, "show": EACH}
    return {
        "subject": subject,
        "reason": reason,
        "code": code or None,
        "count": group.count,
        "oldest": group.oldest,
        "newest": group.newest,
        "last_sequence": group.last_sequence,
        "address": "?" + urlencode({name: value[:512] for name, value in named.items() if value}),
        "last_address": f"/dead-letters/{group.last_sequence}",
    }
