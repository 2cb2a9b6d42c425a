"""One message of the contract: its name, its schema, its examples; and what the settings decide
about schemas.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from router.contracts.shapes.parts import PARTS, Schema, list_parts, name_all_types
from router.contracts.worker import MAX_COST

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DIRECTION = "x-direction"  # in schemas
RECEIVED = "received"  # other programs write it and the router reads it
SENT = "sent"  # the router writes it and other programs read it


class ShapeLimits(Struct, frozen=True, kw_only=True):
    """What a setting decides about a message."""

    max_cost: float = MAX_COST
    assignment_subjects: tuple[str, ...] = ("caf.exec.assign.v1",)


class MessageShape(Struct, frozen=True, kw_only=True):
    """`name` names its file (`decide` is decide.json); `page` is the rule behind it; `examples` are
    whole messages.
    """

    name: str
    title: str
    text: str
    direction: str
    body: Schema
    page: str
    examples: tuple[Any, ...]
    # the protobuf message with the same content: `beamline.flow.v1.RouteRequest`
    proto: str | None = None

    @property
    def schema_id(self) -> str:
        return f"urn:beamline:router:v1:{self.name}"

    def build_schema(self) -> dict[str, Any]:
        """The whole schema, which refers to nothing outside itself."""
        definitions = {name: PARTS[name] for name in list_parts(self.body)}
        return {
            "$schema": DIALECT,
            "$id": self.schema_id,
            "title": self.title,
            "description": f"{self.text} Fields that are not known are ignored. {self.page}",
            DIRECTION: self.direction,
            **name_all_types(self.body),
            "examples": list(self.examples),
            **({"$defs": definitions} if definitions else {}),
        }
