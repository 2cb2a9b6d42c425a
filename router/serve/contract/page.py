"""Violations of the header contract: who breaks which rule, and one event of it with its message."""

from __future__ import annotations

import orjson

from router.contracts.exact_json import dump_json
from router.contracts.header_rules import find_rule
from router.contracts.masked_payload import describe_payload
from router.core.errors import RouterError
from router.core.masking import mask_secrets
from router.delivery.wire.api import JetStream
from router.operate.views import make_violations_view
from router.operate.violations import (
    DIMENSIONS,
    StoredViolation,
    ViolationFilter,
    ViolationReader,
    add_up,
)
from router.operate.violations.violation import list_violation_fields
from router.serve.contract.published_page import TABS
from router.shell.page_data import (
    Fact,
    FactList,
    InvalidAddress,
    Page,
    PageNotFound,
    PageParams,
    Sources,
    TextBlock,
    build_command,
)
from router.shell.table import Table, TableFilter

DEFAULT_SINCE = "24h"
DEFAULT_BY = "tenant,subject,rule"
MAX_PAYLOAD_TEXT = 65_536  # characters
FILTERS = (
    TableFilter("tenant", "Tenant"),
    TableFilter("subject", "Subject", "wildcards * and >"),
    TableFilter("rule", "Rule", "trace_id.malformed"),
    TableFilter("since", "Since", DEFAULT_SINCE),
    TableFilter("by", "By", DEFAULT_BY),
)


async def read_contract(sources: Sources, params: PageParams) -> Page:
    """The worst first, with the newest event of each as its example."""
    since, names = params.text("since") or DEFAULT_SINCE, _read_names(params)
    wanted = ViolationFilter(
        tenant=params.text("tenant"), subject=params.text("subject"), rule=params.text("rule")
    )
    start = params.instant("since", DEFAULT_SINCE)
    stream = sources.settings.streams.violations.name
    reader = ViolationReader(sources.link.jetstream(), stream)
    groups = await add_up(reader.read(start, wanted), names)
    options = {name: params.text(name) for name in ("tenant", "subject", "rule", "by")}
    view = make_violations_view(names)
    table = Table(
        columns=view.page_columns,
        rows=[view.build_row(group) for group in groups],
        empty=(
            f"No violations since {since}. Senders that break a rule of the headers are listed "
            "here, with an example each."
        ),
        filters=FILTERS,
    )
    return Page(
        title="Contract",
        lead=f"violations of the header contract since {since}",
        command=build_command("router", "contract", "violations", since=since, **options),
        tabs=TABS,
        table=table,
    )


async def read_violation_page(sources: Sources, params: PageParams) -> Page:
    """One event, its rule, and its message with masked values, where its stream still has it."""
    sequence, stream = params.number("sequence"), sources.settings.streams.violations.name
    jetstream = sources.link.jetstream()
    found = await ViolationReader(jetstream, stream).find(sequence)
    if found is None:
        raise PageNotFound(
            f"There is no event {sequence} in {stream}: it is too old, or never was."
        )
    fields = list_violation_fields(found.event)
    facts = [
        Fact(name.replace("_", " ").capitalize(), _to_cell(value))
        for name, value in fields.items()
        if name != "timestamp"
    ]
    rule = find_rule((found.event.header, found.event.rule))
    explained = [
        Fact("Rule", rule.name),
        Fact("It says", rule.says),
        Fact("More", build_command("router", "explain", rule.code), kind="id"),
    ]
    lists = [
        FactList("Its rule", explained),
        FactList("The event", [Fact("Stored", found.stored_at, kind="time"), *facts]),
    ]
    return Page(
        title=f"Violation {sequence}",
        lead=f"{found.event.header}.{found.event.rule} on {found.event.subject}",
        tenant=found.event.tenant_id,
        command=build_command("router", "contract", "violation", str(sequence)),
        back=("/contract", "Contract"),
        lists=[*lists, *await _read_message(jetstream, found)],
    )


def _read_names(params: PageParams) -> list[str]:
    names = [name.strip() for name in (params.text("by") or DEFAULT_BY).split(",") if name.strip()]
    if not names or not set(names) <= DIMENSIONS.keys():
        raise InvalidAddress(f"by: a list of {', '.join(DIMENSIONS)}")
    return list(dict.fromkeys(names))


async def _read_message(jetstream: JetStream, found: StoredViolation) -> list[FactList | TextBlock]:
    """Nothing if no stream has it, or if this role may not read that stream."""
    event = found.event
    if event.stream is None or event.sequence is None:
        return []
    command = build_command("router", "contract", "message", event.stream, str(event.sequence))
    try:
        message = await jetstream.message(event.stream, event.sequence)
    except RouterError as exc:
        return [
            TextBlock("The message", "", f"cannot be read here ({exc.code}); {command} shows it")
        ]
    if message is None:
        return [
            TextBlock(
                "The message",
                "",
                f"{event.stream} has no message {event.sequence}: it is too old, or was removed",
            )
        ]
    headers = mask_secrets(message.headers)
    shown = describe_payload(message.data)
    text = dump_json(
        shown.get("payload", shown), orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    ).decode()
    facts = (
        [Fact(name, str(value)) for name, value in headers.items()]
        if isinstance(headers, dict)
        else []
    )
    return [
        FactList("The message's headers", facts),
        TextBlock("Its payload, masked", text[:MAX_PAYLOAD_TEXT], f"{len(message.data):,} bytes"),
    ]


def _to_cell(value: object) -> str | int | float | None:
    return value if isinstance(value, str | int | float) else str(value)
