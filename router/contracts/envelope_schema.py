"""The envelope's JSON Schema (docs/reference/requirements.md#sr-36), made of the type; the file
beside it is what other languages read.

    python -m router.contracts.envelope_schema >
    router/contracts/schemas/messaging/message-envelope.schema.json

A test keeps the file equal to the type.
"""

from __future__ import annotations

import importlib.resources
from typing import Any

import msgspec
import orjson

from router.contracts.envelope import MessageEnvelope

SCHEMA_ID = "urn:solver-ralph:messaging:message-envelope:1.0"
FILE = "schemas/messaging/message-envelope.schema.json"


def envelope_schema() -> dict[str, Any]:
    """The schema as the type says it: JSON Schema 2020-12."""
    made = msgspec.json.schema(
        MessageEnvelope, schema_hook=lambda _: {"description": "any JSON value"}
    )["$defs"][MessageEnvelope.__name__]
    about = "A domain event, a command or a query on its way over NATS. Unknown fields are ignored."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **made,
        "description": about,
    }


def envelope_schema_file() -> str:
    return importlib.resources.files("router.contracts").joinpath(FILE).read_text("utf-8")


def render_schema() -> str:
    """The schema as the file holds it."""
    return orjson.dumps(envelope_schema(), option=orjson.OPT_INDENT_2).decode() + "\n"


if __name__ == "__main__":
    print(render_schema(), end="")
