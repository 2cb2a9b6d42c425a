"""An extension as a service of nats.micro: its name, its subjects, the shapes of its requests and responses."""

from __future__ import annotations

import re
from collections.abc import Mapping

import orjson
from nats.micro import add_service
from nats.micro.service import Service

from router.delivery.wire.calls.micro_endpoint import MicroEndpoint, OnRequest
from router.delivery.wire.connection import Connection
from router.extensions.model.entry import PROVIDER, VALIDATOR
from router.operate.catalogue import build_shapes
from router.sdk.extension.author import Extension

_NUMBERED = re.compile(r"v?(\d{1,9})")
_ASKS = "{trace_id, tenant_id, payload{message_id, message_type, payload, metadata}, metadata, config}"
_SHAPES: Mapping[str, tuple[str, str]] = {
    PROVIDER: (
        "{trace_id, tenant_id, provider_id, prompt, parameters, context}",
        "{provider_id, output, usage{prompt_tokens, completion_tokens}, metadata}",
    ),
    VALIDATOR: (_ASKS, "{status: ok | reject, reason?, details?}"),
}
_SCHEMAS: Mapping[str, tuple[str, str]] = {
    PROVIDER: ("provider-call", "provider-answer"),
    VALIDATOR: ("extension-request", "extension-verdict"),
}


async def create_service(connection: Connection, extension: Extension) -> Service:
    """The extension as a nats.micro service, found by `$SRV.PING`, `$SRV.INFO`, `$SRV.STATS`."""
    return await add_service(
        connection,
        name=extension.id,
        version=_semantic(extension.version),
        description=_first_line(extension.function.__doc__),
        metadata={"type": extension.kind, "id": extension.id, "version": extension.version},
        queue_group=extension.id,
    )


def build_endpoint(connection: Connection, extension: Extension, subject: str, on_request: OnRequest) -> MicroEndpoint:
    """One subject of the service."""
    asks, gives = _SHAPES.get(extension.kind, (_ASKS, "{payload, metadata}"))
    metadata = {"request": asks, "response": gives, **_build_schemas(extension.kind)}
    return MicroEndpoint(connection, on_request, name=extension.id, subject=subject, queue_group=extension.id, metadata=metadata)


def _build_schemas(kind: str) -> dict[str, str]:
    """The JSON Schema of request and response as text, without examples: `$SRV.INFO` carries text only."""
    shapes = build_shapes()
    names = _SCHEMAS.get(kind, ("extension-request", "extension-message"))
    schemas = dict(zip(("request_schema", "response_schema"), (shapes[name].build_schema() for name in names), strict=True))
    return {name: orjson.dumps({**schema, "examples": []}).decode() for name, schema in schemas.items()}


def _semantic(version: str) -> str:
    """nats.micro needs three numbers; the metadata holds the real version."""
    numbered = _NUMBERED.fullmatch(version)
    return f"{int(numbered[1])}.0.0" if numbered is not None else "0.0.0"


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
