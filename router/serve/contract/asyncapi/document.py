"""The AsyncAPI 3.0 document of one router, as JSON values and as YAML.

JetStream has no binding of its own in AsyncAPI, so a stream stands in `x-jetstream` beside the
channel; the queue group is the operation's NATS binding. Messages and schemas stand once, under
`components`, and are referred to from there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from router import __version__
from router.config import Settings
from router.contracts.header_rules import build_headers_schema
from router.contracts.shapes.message_shape import DIRECTION
from router.contracts.shapes.notation import build_request, build_response
from router.contracts.shapes.parts import PARTS, name_all_types
from router.contracts.usage import decimal
from router.core import ids
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology
from router.operate.admin import Service
from router.operate.admin.service import INTERNAL_PREFIX
from router.operate.catalogue import RECEIVED, SENT, MessageShape
from router.serve.contract.asyncapi.channels import RECEIVE, ChannelSpec, list_channels

# -- The whole document.

ASYNCAPI = "3.0.0"
BINDING_VERSION = "0.1.0"
INBOX = "inbox"
_REPLY_TEXT = "the inbox that the request names as its reply subject, or in the header Reply-To"


class ContractFacts(Struct, frozen=True, kw_only=True):
    """What the document is made of."""

    settings: Settings
    topology: Topology
    shapes: Mapping[str, MessageShape]
    services: Sequence[Service]


def build_document(facts: ContractFacts) -> dict[str, Any]:
    """The document; of equal facts always the same."""
    services = [service for service in facts.services if service.prefix != INTERNAL_PREFIX]
    channels = [
        *list_channels(facts.settings),
        *(_describe_service(service, facts.settings) for service in services),
    ]
    schemas = {}
    for service in services:
        schemas[f"{service.name}-request"] = {DIRECTION: RECEIVED, **build_request(service.asks)}
        schemas[f"{service.name}-response"] = {DIRECTION: SENT, **build_response(service.gives)}
    with_headers = {
        message
        for channel in channels
        if channel.has_contract_headers
        for message in channel.messages
    }
    replies = {
        message: _refer_message(message) for channel in channels for message in channel.reply
    }
    return {
        "asyncapi": ASYNCAPI,
        "id": "urn:beamline:router:v1",
        "info": _build_info(),
        "defaultContentType": "application/json",
        "servers": dict(_list_servers(facts.settings)),
        "channels": {
            **{channel.name: _build_channel(channel, facts.topology) for channel in channels},
            INBOX: {"address": None, "description": _REPLY_TEXT, "messages": replies},
        },
        "operations": {
            f"{channel.action}-{channel.name}": _build_operation(channel) for channel in channels
        },
        "components": build_components(facts.shapes, schemas, with_headers),
    }


def _build_info() -> dict[str, Any]:
    return {
        "title": "Router",
        "version": __version__,
        "description": (
            "A durable message router on NATS JetStream. The actions are the router's: it "
            "receives requests and sends answers."
        ),
        "license": {"name": "Apache-2.0"},
    }


def _list_servers(settings: Settings) -> Iterator[tuple[str, dict[str, Any]]]:
    """Without the login that an address may have."""
    for place, address in enumerate(settings.nats.url, 1):
        parts = urlsplit(address if "://" in address else f"nats://{address}")
        yield (
            f"nats{place}",
            {
                "host": f"{parts.hostname}:{parts.port or 4222}",
                "protocol": parts.scheme,
                "description": "NATS with JetStream",
            },
        )


def _describe_service(service: Service, settings: Settings) -> ChannelSpec:
    return ChannelSpec(
        name=service.name,
        address=service.subject,
        action=RECEIVE,
        messages=(f"{service.name}-request",),
        reply=(f"{service.name}-response",),
        text=(
            f"For operators: {service.says}. "
            f"{'Every instance answers.' if service.is_everywhere else ''}"
        ).strip(),
        queue=None if service.is_everywhere else settings.admin.queue_group,
    )


def _build_channel(channel: ChannelSpec, topology: Topology) -> dict[str, Any]:
    parameters = {
        name: {"description": f"{name}: one token", **({"enum": list(values)} if values else {})}
        for name, values in channel.parameters.items()
    }
    stream = _find_stream(channel, topology)
    return {
        "address": channel.address,
        "description": channel.text,
        "messages": {name: _refer_message(name) for name in channel.messages},
        **({"parameters": parameters} if parameters else {}),
        **(
            {"x-jetstream": _describe_stream(stream, topology.consumers)}
            if stream is not None
            else {}
        ),
    }


def _build_operation(channel: ChannelSpec) -> dict[str, Any]:
    reply = {
        "address": {"location": "$message.header#/Reply-To", "description": _REPLY_TEXT},
        "channel": {"$ref": f"#/channels/{INBOX}"},
        "messages": [{"$ref": f"#/channels/{INBOX}/messages/{name}"} for name in channel.reply],
    }
    binding = {"nats": {"queue": channel.queue, "bindingVersion": BINDING_VERSION}}
    return {
        "action": channel.action,
        "channel": {"$ref": f"#/channels/{channel.name}"},
        "summary": channel.text,
        "messages": [
            {"$ref": f"#/channels/{channel.name}/messages/{name}"} for name in channel.messages
        ],
        **({"bindings": binding} if channel.queue else {}),
        **({"reply": reply} if channel.reply else {}),
    }


def _find_stream(channel: ChannelSpec, topology: Topology) -> StreamSpec | None:
    """The stream that keeps what is sent there."""
    return next(
        (
            stream
            for stream in topology.streams
            if ids.subject_matcher(stream.subjects)(channel.address)
        ),
        None,
    )


def _describe_stream(stream: StreamSpec, consumers: Sequence[ConsumerSpec]) -> dict[str, Any]:
    durables = [consumer.durable for consumer in consumers if consumer.stream == stream.name]
    return {
        "stream": stream.name,
        "subjects": list(stream.subjects),
        "max_age_s": stream.max_age,
        "max_bytes": stream.max_bytes,
        "duplicate_window_s": stream.duplicate_window,
        "discard": stream.discard,
        "no_ack": stream.no_ack,
        **({"durables": durables} if durables else {}),
    }


def _refer_message(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/messages/{name}"}


# -- The components: messages and schemas.

JSON = "application/json"
HEADERS_SCHEMA = "contract-headers"
_DEFINITIONS, _COMPONENT_SCHEMAS = "#/$defs/", "#/components/schemas/"


def build_components(
    shapes: Mapping[str, MessageShape],
    services: Mapping[str, Mapping[str, Any]],
    with_headers: Collection[str],
) -> dict[str, Any]:
    """`services`: the schemas of operators' services, by the name of their message; `with_headers`:
    messages that carry the headers.
    """
    schemas: dict[str, Any] = {f"part-{name}": PARTS[name] for name in sorted(PARTS)}
    schemas |= {name: _build_schema(shape) for name, shape in shapes.items()}
    schemas |= {HEADERS_SCHEMA: build_headers_schema(), **services}
    messages = {name: _build_message(shape, name in with_headers) for name, shape in shapes.items()}
    messages |= {
        name: {"name": name, "contentType": JSON, "payload": _refer_schema(name)}
        for name in services
    }
    return {
        "messages": messages,
        "schemas": {name: move_references(schema) for name, schema in schemas.items()},
    }


def move_references(schema: Any) -> Any:
    """The schema with its parts under `components`."""
    if isinstance(schema, Mapping):
        return {
            name: _move_reference(value) if name == "$ref" else move_references(value)
            for name, value in schema.items()
        }
    return (
        [move_references(part) for part in schema] if isinstance(schema, list | tuple) else schema
    )


def _build_message(shape: MessageShape, has_headers: bool) -> dict[str, Any]:
    examples = [
        {"name": f"{shape.name}-{place}", "payload": example}
        for place, example in enumerate(shape.examples, 1)
    ]
    return {
        "name": shape.name,
        "title": shape.title,
        "summary": shape.text,
        "contentType": JSON,
        **({"headers": _refer_schema(HEADERS_SCHEMA)} if has_headers else {}),
        "payload": _refer_schema(shape.name),
        "examples": examples,
        **({"x-protobuf": shape.proto} if shape.proto else {}),
    }


def _build_schema(shape: MessageShape) -> dict[str, Any]:
    return {
        "title": shape.title,
        "description": shape.text,
        DIRECTION: shape.direction,
        **name_all_types(shape.body),
    }


def _refer_schema(name: str) -> dict[str, str]:
    return {"$ref": f"{_COMPONENT_SCHEMAS}{name}"}


def _move_reference(reference: object) -> object:
    return (
        f"{_COMPONENT_SCHEMAS}part-{reference.removeprefix(_DEFINITIONS)}"
        if isinstance(reference, str)
        else reference
    )


# -- JSON values as YAML 1.2, for people: one key a line. It needs no library, because YAML takes
# JSON's strings and numbers as they are.


# Words that are text in every version of YAML; all others are written in quotes.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def write_yaml(value: Mapping[str, Any]) -> str:
    return "".join(f"{line}\n" for line in _write_block(value, ""))


def _write_block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _write_entry(f"{indent}{_write_scalar(name)}:", inner, f"{indent}  ")
    else:
        for inner in value:
            yield from _write_entry(f"{indent}-", inner, f"{indent}  ")


def _write_entry(start: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield start
        yield from _write_block(value, indent)
    else:
        yield f"{start} {_write_scalar(value)}"


def _write_scalar(value: Any) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _RESERVED
        return value if is_plain else "".join(map(_escape, orjson.dumps(value).decode()))
    if isinstance(value, float):
        return decimal(value)
    return orjson.dumps(value).decode()


def _escape(letter: str) -> str:
    """YAML refuses letters that cannot be printed; JSON leaves some of them as they are."""
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"
