"""The pages of the contract: who breaks which rule of the headers, one event of it with its message;
every subject with its messages, the fields of each, the rules.

The published pages show what `router contract asyncapi`, `schemas` and `headers` publish, with the
bounds of the console's settings.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import orjson

from router.contracts.exact_json import dump_json
from router.contracts.header_rules import RULES, find_rule
from router.contracts.payload_display import describe_payload
from router.contracts.shapes.message_shape import list_fields, list_required
from router.contracts.shapes.parts import PARTS, Schema
from router.core.errors import RouterError
from router.core.masking import mask_secrets
from router.delivery.wire.api import JetStream
from router.operate.catalogue import MessageShape, ShapeLimits, build_shapes
from router.operate.views import make_violations_view
from router.operate.violations import (
    DIMENSIONS,
    StoredViolation,
    ViolationFilter,
    ViolationReader,
    add_up,
)
from router.operate.violations.events import list_violation_fields
from router.serve.contract.asyncapi.channels import RECEIVE, ChannelSpec, list_channels
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
from router.shell.table import Row, TableFilter
from router.shell.view import View, ViewColumn

TABS = (
    ("/contract", "Violations"),
    ("/contract/channels", "Channels"),
    ("/contract/rules", "Header rules"),
)
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
    table = make_violations_view(names).make_table(
        groups,
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
    stored = await ViolationReader(jetstream, stream).find(sequence)
    if stored is None:
        raise PageNotFound(
            f"There is no event {sequence} in {stream}: it is too old, or never was."
        )
    fields = list_violation_fields(stored.event)
    facts = [
        Fact(name.replace("_", " ").capitalize(), _to_cell(value))
        for name, value in fields.items()
        if name != "timestamp"
    ]
    rule = find_rule((stored.event.header, stored.event.rule))
    explained = [
        Fact("Rule", rule.name),
        Fact("It says", rule.says),
        Fact("More", build_command("router", "explain", rule.code), kind="id"),
    ]
    lists = [
        FactList("Its rule", explained),
        FactList("The event", [Fact("Stored", stored.stored_at, kind="time"), *facts]),
    ]
    return Page(
        title=f"Violation {sequence}",
        lead=f"{stored.event.header}.{stored.event.rule} on {stored.event.subject}",
        tenant=stored.event.tenant_id,
        command=build_command("router", "contract", "violation", str(sequence)),
        back=("/contract", "Contract"),
        lists=[*lists, *await _read_message(jetstream, stored)],
    )


def _read_names(params: PageParams) -> list[str]:
    names = [name.strip() for name in (params.text("by") or DEFAULT_BY).split(",") if name.strip()]
    if not names or not set(names) <= DIMENSIONS.keys():
        raise InvalidAddress(f"by: a list of {', '.join(DIMENSIONS)}")
    return list(dict.fromkeys(names))


async def _read_message(
    jetstream: JetStream, stored: StoredViolation
) -> list[FactList | TextBlock]:
    """Nothing if no stream has it, or if this role may not read that stream."""
    event = stored.event
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


# -- What is published. No server is asked.


class ChannelMessage(NamedTuple):
    """One message of a subject."""

    channel: ChannelSpec
    message: str

    @property
    def reply(self) -> str | None:
        return self.channel.reply[0] if self.channel.reply else None


def _link_messages(message: ChannelMessage) -> Row:
    names = {"address": message.message, "reply_address": message.reply}
    return {key: f"/contract/messages/{name}" for key, name in names.items()}


def _describe_action(message: ChannelMessage) -> str:
    return "takes" if message.channel.action == RECEIVE else "sends"


CHANNELS = View(
    ViewColumn("router", None, "A router", of=_describe_action),
    ViewColumn("subject", None, "Subject", of="channel.address", kind="id"),
    ViewColumn("message", None, "Message", kind="id", href="address"),
    ViewColumn("reply", None, "Answer", kind="id", href="reply_address"),
    ViewColumn("text", None, "What it is", of="channel.text", kind="prose"),
    links=_link_messages,
)
HEADER_RULES = View(
    ViewColumn("rule", None, "Rule", of="code", kind="id"),
    ViewColumn("says", None, "The header is"),
    ViewColumn("usual", None, "Why clients break it"),
    ViewColumn("do", None, "What to change"),
)


async def read_channels(sources: Sources, _: PageParams) -> Page:
    """A row for each message of a subject."""
    rows = [
        ChannelMessage(channel, message)
        for channel in list_channels(sources.settings)
        for message in channel.messages
    ]
    note = "Without the operators' services: `router contract asyncapi` has them, and the streams."
    return Page(
        title="Channels",
        lead="what routers take and send",
        command=build_command("router", "contract", "asyncapi"),
        tabs=TABS,
        table=CHANNELS.make_table(rows, empty="There are none.", note=note),
    )


async def read_message(sources: Sources, params: PageParams) -> Page:
    """The fields of one message, and examples. Raises PageNotFound."""
    shape = _build_all(sources).get(params.path["message"])
    if shape is None:
        raise PageNotFound("The contract has no such message: /contract/channels lists them.")
    facts = (
        Fact("Is", shape.text, kind="prose"),
        Fact("For a router it is", shape.direction),
        Fact("Rules", shape.page),
        Fact("In protobuf", shape.proto),
    )
    examples = "\n\n".join(
        orjson.dumps(example, option=orjson.OPT_INDENT_2).decode() for example in shape.examples
    )
    return Page(
        title=f"{shape.name}: {shape.title}",
        command=build_command("router", "contract", "schemas", "DIR"),
        back=("/contract/channels", "Channels"),
        lists=[FactList("The message", facts), TextBlock("Examples", examples)],
        table=_make_fields_view(set(list_required(shape.body))).make_table(
            list_fields(shape.body).items(),
            empty="It has any fields.",
            note="Fields that are not known are ignored.",
        ),
    )


async def read_rules(_: Sources, __: PageParams) -> Page:
    """The rules of the headers."""
    return Page(
        title="Header rules",
        lead="what breaks one is counted, and does not stop a message",
        command=build_command("router", "contract", "headers"),
        tabs=TABS,
        table=HEADER_RULES.make_table(RULES, empty="There are none."),
    )


def _build_all(sources: Sources) -> Mapping[str, MessageShape]:
    settings = sources.settings
    return build_shapes(
        ShapeLimits(
            max_cost=settings.results.max_cost, assignment_subjects=settings.assignment.subjects
        )
    )


def _make_fields_view(required: Collection[str]) -> View:
    """Return the view of a message's fields: each is its place and its schema."""
    return View(
        ViewColumn("field", None, "Field", of=lambda field: field[0], kind="id"),
        ViewColumn("type", None, "Kind", of=lambda field: _describe_kind(field[1])),
        ViewColumn(
            "required",
            None,
            "In every form",
            of=lambda field: "yes" if field[0] in required else None,
        ),
        ViewColumn("says", None, "Is", of=lambda field: _describe_field(field[1]), kind="prose"),
    )


def _find_part(field: Schema) -> Schema:
    return PARTS.get(str(field.get("$ref", "")).rpartition("/")[2], {})


def _describe_kind(field: Schema) -> str:
    kind = field.get("type", _find_part(field).get("type", "any value"))
    return " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)


def _describe_field(field: Schema) -> str | None:
    values = field.get("enum", [field["const"]] if "const" in field else ())
    legal = ", ".join(orjson.dumps(value).decode() for value in values)
    texts = (field.get("description"), _find_part(field).get("description"), legal)
    return "; ".join(str(text) for text in texts if text) or None
