"""The published contract: every subject with its messages, the fields of each message, the rules of
the headers. No server is asked.

The pages show what `router contract asyncapi`, `schemas` and `headers` publish, with the bounds of
the console's settings.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from router.contracts.header_rules import RULES
from router.contracts.shapes.message_shape import list_fields, list_required
from router.contracts.shapes.parts import PARTS, Schema
from router.operate.catalogue import MessageShape, ShapeLimits, build_shapes
from router.serve.contract.asyncapi.channels import RECEIVE, ChannelSpec, list_channels
from router.shell.page_data import (
    Fact,
    FactList,
    Page,
    PageNotFound,
    PageParams,
    Sources,
    TextBlock,
    build_command,
)
from router.shell.table import Column, Row, Table

TABS = (
    ("/contract", "Violations"),
    ("/contract/channels", "Channels"),
    ("/contract/rules", "Header rules"),
)
CHANNEL_COLUMNS = (
    Column("router", "A router"),
    Column("subject", "Subject", "id"),
    Column("message", "Message", "id", "address"),
    Column("reply", "Answer", "id", "reply_address"),
    Column("text", "What it is", "prose"),
)
FIELD_COLUMNS = (
    Column("field", "Field", "id"),
    Column("type", "Kind"),
    Column("required", "In every form"),
    Column("says", "Is", "prose"),
)
RULE_COLUMNS = (
    Column("rule", "Rule", "id"),
    Column("says", "The header is"),
    Column("usual", "Why clients break it"),
    Column("do", "What to change"),
)


async def read_channels(sources: Sources, _: PageParams) -> Page:
    """A row for each message of a subject."""
    rows = [
        _build_channel_row(channel, message)
        for channel in list_channels(sources.settings)
        for message in channel.messages
    ]
    note = "Without the operators' services: `router contract asyncapi` has them, and the streams."
    return Page(
        title="Channels",
        lead="what routers take and send",
        command=build_command("router", "contract", "asyncapi"),
        tabs=TABS,
        table=Table(columns=CHANNEL_COLUMNS, rows=rows, empty="There are none.", note=note),
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
        orjson.dumps(one, option=orjson.OPT_INDENT_2).decode() for one in shape.examples
    )
    required = set(list_required(shape.body))
    return Page(
        title=f"{shape.name}: {shape.title}",
        command=build_command("router", "contract", "schemas", "DIR"),
        back=("/contract/channels", "Channels"),
        lists=[FactList("The message", facts), TextBlock("Examples", examples)],
        table=Table(
            columns=FIELD_COLUMNS,
            rows=[
                _build_field_row(place, field, required)
                for place, field in list_fields(shape.body).items()
            ],
            empty="It has any fields.",
            note="Fields that are not known are ignored.",
        ),
    )


async def read_rules(_: Sources, __: PageParams) -> Page:
    """The rules of the headers."""
    rows: list[Row] = [
        {"rule": one.code, "says": one.says, "usual": one.usual, "do": one.do} for one in RULES
    ]
    return Page(
        title="Header rules",
        lead="what breaks one is counted, and does not stop a message",
        command=build_command("router", "contract", "headers"),
        tabs=TABS,
        table=Table(columns=RULE_COLUMNS, rows=rows, empty="There are none."),
    )


def _build_all(sources: Sources) -> Mapping[str, MessageShape]:
    settings = sources.settings
    return build_shapes(
        ShapeLimits(
            max_cost=settings.results.max_cost, assignment_subjects=settings.assignment.subjects
        )
    )


def _build_channel_row(channel: ChannelSpec, message: str) -> Row:
    reply = channel.reply[0] if channel.reply else None
    return {
        "router": "takes" if channel.action == RECEIVE else "sends",
        "subject": channel.address,
        "message": message,
        "address": f"/contract/messages/{message}",
        "reply": reply,
        "reply_address": f"/contract/messages/{reply}",
        "text": channel.text,
    }


def _build_field_row(place: str, field: Schema, required: set[str]) -> Row:
    part = PARTS.get(str(field.get("$ref", "")).rpartition("/")[2], {})
    kind = field.get("type", part.get("type", "any value"))
    legal = [
        orjson.dumps(value).decode()
        for value in field.get("enum", [field["const"]] if "const" in field else ())
    ]
    words = [
        str(text)
        for text in (field.get("description"), part.get("description"), ", ".join(legal))
        if text
    ]
    kinds = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return {
        "field": place,
        "type": kinds,
        "required": "yes" if place in required else None,
        "says": "; ".join(words) or None,
    }
