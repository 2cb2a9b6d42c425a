"""docs/reference/requirements.md#sd-1: names, fields, types, rules and methods are the
specification's, one to one.
"""

import inspect
import types
from datetime import datetime
from enum import Enum
from importlib import import_module
from typing import get_type_hints
from uuid import UUID

import msgspec
import pytest

from router.mailbox import entities, policies, ports

ENTITIES = {
    "OutboxEvent": {  # SD-2
        "id": UUID,
        "aggregate_type": str,
        "aggregate_id": str,
        "event_type": str,
        "event_version": int,
        "payload": entities.Json,
        "occurred_at": datetime | None,
        "correlation_id": UUID | None,
        "causation_id": UUID | None,
        "published_at": datetime | None,
        "publish_attempts": int,
        "publish_error": str | None,
    },
    "InboxMessage": {  # SD-3
        "message_id": UUID,
        "subject": str,
        "received_at": datetime | None,
        "processed_at": datetime | None,
        "attempts": int,
        "last_error": str | None,
    },
    "CorrelationContext": {"correlation_id": UUID | None, "causation_id": UUID | None},  # SD-5
    "NatsMsgId": {"value": str},  # SD-6
}

POLICIES = [  # SD-7 … SD-13
    (
        "POL-047-001",
        "OutboxEvent",
        "outbox.id IS NOT NULL AND outbox.event_type IS NOT NULL",
        "INVALID_OUTBOX",
        "REQ-050",
    ),
    ("POL-047-002", "OutboxEvent", "outbox.occurred_at <= NOW()", "FUTURE_EVENT", "REQ-050"),
    ("POL-047-003", "InboxMessage", "inbox.message_id IS UNIQUE", "DUPLICATE_MESSAGE", "REQ-051"),
    (
        "POL-047-004",
        "InboxMessage",
        "inbox.processed_at IS NULL OR inbox.processed_at >= inbox.received_at",
        "INVALID_TIMESTAMP",
        "REQ-051",
    ),
    (
        "POL-047-005",
        "InboxConsumer",
        "handler_response = 200 OR handler_response = 409 → ACK",
        None,
        "REQ-051",
    ),
    ("POL-047-006", "InboxConsumer", "handler_response = 422 → ACK + DLQ", None, "REQ-053"),
    ("POL-047-007", "InboxConsumer", "handler_response = 5xx OR timeout → NO ACK", None, "REQ-052"),
]

PORTS = {  # SD-21 … SD-25
    "OutboxRepository": {
        "find_unpublished": [],
        "mark_published": ["id"],
        "increment_attempts": ["id", "error"],
    },
    "InboxRepository": {
        "insert": ["msg"],
        "mark_processed": ["id"],
        "record_error": ["id", "error"],
    },
    "JetStreamPublisher": {"publish": ["subject", "payload", "headers"]},
    "JetStreamConsumer": {"fetch": ["batch"], "ack": ["msg"], "nak": ["msg"]},
    "EventHandler": {"handle": ["event_type", "payload"]},
}

WIRING = {  # SD-35 and the specification's glossary: where each is found
    "PostgresOutboxAdapter": "router.mailbox.outbox.repository",
    "NatsJetStreamPublisher": "router.mailbox.outbox.nats_publisher",
    "OutboxPublisher": "router.mailbox.outbox.publisher",
}


@pytest.mark.parametrize("name", ENTITIES)
def test_an_entity_has_the_specified_fields_and_no_other(name: str) -> None:
    """SD-1."""
    kind: type[msgspec.Struct] = getattr(entities, name)
    hints = get_type_hints(kind)
    assert {field: hints[field] for field in kind.__struct_fields__} == ENTITIES[name]


@pytest.mark.parametrize("line", POLICIES, ids=[line[0] for line in POLICIES])
def test_a_policy_stands_word_for_word(line: tuple[str, ...]) -> None:
    """SD-7 to SD-13."""
    assert line in [msgspec.structs.astuple(policy) for policy in policies.POLICIES]


def test_there_are_no_other_policies() -> None:
    assert len(policies.POLICIES) == len(POLICIES)


@pytest.mark.parametrize("name", PORTS)
def test_a_port_has_the_specified_methods_in_snake_case(name: str) -> None:
    """SD-21 to SD-25."""
    port = getattr(ports, name)
    methods = {
        method: function
        for method, function in vars(port).items()
        if isinstance(function, types.FunctionType) and method[0] != "_"
    }
    assert {
        method: [*inspect.signature(function).parameters][1:]
        for method, function in methods.items()
    } == PORTS[name]


@pytest.mark.parametrize("name", WIRING)
def test_an_adapter_has_the_specified_name_and_offers_its_port(name: str) -> None:
    """SD-35."""
    adapter = getattr(import_module(WIRING[name]), name)
    port = {
        "PostgresOutboxAdapter": "OutboxRepository",
        "NatsJetStreamPublisher": "JetStreamPublisher",
    }.get(name)
    for method, wanted in PORTS.get(port or "", {}).items():
        assert [*inspect.signature(getattr(adapter, method)).parameters][
            1 : len(wanted) + 1
        ] == wanted


def test_a_handler_answers_one_of_four() -> None:
    """SD-11, SD-12, SD-13, SD-33."""
    assert issubclass(ports.HandlerResult, Enum)
    assert [result.name for result in ports.HandlerResult] == [
        "PROCESSED",
        "ALREADY_PROCESSED",
        "POISON",
        "TRANSIENT",
    ]


@pytest.mark.parametrize("subject", ["sea.event.order_paid.v1", "vibespro.event.vibe_created.v12"])
def test_an_event_subject_is_context_event_name_version(subject: str) -> None:
    """SD-4."""
    found = entities.EventSubject.read(subject)
    assert found.value == subject
    assert entities.EventSubject.from_parts(found.context, found.name, found.version) == found


@pytest.mark.parametrize(
    "subject",
    [
        "sea.event.v1",
        "sea.event.a.b.v1",
        "sea.events.a.v1",
        "sea.event.a.v0",
        "sea.event.a.1",
        "*.event.a.v1",
        "",
    ],
)
def test_anything_else_is_no_event_subject(subject: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        entities.EventSubject.read(subject)
