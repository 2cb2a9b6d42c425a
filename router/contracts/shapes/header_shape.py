"""The headers of the contract as a schema, made of the table of rules
(docs/reference/contracts.md#header-contract).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.contracts.header_rules import RULES
from router.contracts.headers import (
    CONTRACT_HEADERS,
    CP_PHASE,
    MESSAGE_ID,
    PHASES,
    SUPPORTED_VERSIONS,
    TENANT_ID,
    TRACE_ID,
    TRACEPARENT,
    VERSION_HEADER,
)
from router.contracts.shapes.parts import Schema, build_object
from router.core import ids

_ID: Schema = {"type": "string", "pattern": f"^{ids.OPAQUE_PATTERN}$"}
_VALUES: Mapping[str, Schema] = {
    TRACE_ID: _ID,
    TENANT_ID: {"type": "string", "pattern": f"^{ids.SCOPED_PATTERN}$"},
    MESSAGE_ID: _ID,
    VERSION_HEADER: {"enum": sorted(SUPPORTED_VERSIONS)},
    CP_PHASE: {"enum": sorted(PHASES)},
    TRACEPARENT: {
        "type": "string",
        "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}",
    },
}


def build_headers_schema() -> dict[str, Any]:
    """Beside any contract header, every rule holds and a Nats-Msg-Id is there. What is refused of
    any message has no line here.
    """
    words: dict[str, list[str]] = {}
    for rule in (rule for rule in RULES if not rule.is_always):
        words.setdefault(rule.header, []).append(rule.says)
    properties = {
        header: {**_VALUES[header], "description": "; ".join(says)}
        for header, says in words.items()
    }
    has_any = {"anyOf": [{"required": [header]} for header in sorted(CONTRACT_HEADERS)]}
    needed = [rule.header for rule in RULES if rule.is_required]
    return {**build_object(properties), "if": has_any, "then": {"required": needed}}
