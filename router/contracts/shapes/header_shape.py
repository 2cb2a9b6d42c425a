"""The headers of the contract as a schema, made of the table of rules (docs/contracts.md#header-contract)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.contracts.headers import (
    CONTRACT_HEADERS,
    CP_PHASE,
    MESSAGE_ID,
    PHASES,
    RULES,
    SUPPORTED_VERSIONS,
    TENANT_ID,
    TRACE_ID,
    TRACEPARENT,
    VERSION_HEADER,
)
from router.contracts.shapes.parts import Schema, build_object

_GIVEN: Schema = {"type": "string", "minLength": 1}
_VALUES: Mapping[str, Schema] = {
    TRACE_ID: _GIVEN,
    TENANT_ID: _GIVEN,
    MESSAGE_ID: _GIVEN,
    VERSION_HEADER: {"enum": sorted(SUPPORTED_VERSIONS)},
    CP_PHASE: {"enum": sorted(PHASES)},
    TRACEPARENT: {"type": "string", "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"},
}


def build_headers_schema() -> dict[str, Any]:
    """Beside any contract header, every rule holds and a Nats-Msg-Id is there."""
    words: dict[str, list[str]] = {}
    for rule in RULES:
        words.setdefault(rule.header, []).append(rule.says)
    properties = {header: {**_VALUES[header], "description": "; ".join(says)} for header, says in words.items()}
    has_any = {"anyOf": [{"required": [header]} for header in sorted(CONTRACT_HEADERS)]}
    needed = [rule.header for rule in RULES if rule.is_required]
    return {**build_object(properties), "if": has_any, "then": {"required": needed}}
