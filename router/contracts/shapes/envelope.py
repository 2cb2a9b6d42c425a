"""The envelope of the bus (docs/reference/requirements.md#sr-envelope): its schema has a file and
an id of its own.
"""

from __future__ import annotations

from router.contracts.envelope import envelope_schema
from router.contracts.shapes.message_shape import RECEIVED, MessageShape, ShapeLimits

_OWN = ("$schema", "$id", "title", "description")


def build_envelope_shape(_: ShapeLimits) -> MessageShape:
    return MessageShape(
        name="envelope",
        title="MessageEnvelope",
        text="A domain event, a command or a query on the bus.",
        direction=RECEIVED,
        body={name: value for name, value in envelope_schema().items() if name not in _OWN},
        page="docs/reference/requirements.md#sr-envelope",
        examples=(
            {
                "schema_version": "1.0",
                "message_type": "LoopCreated",
                "message_id": "5b1f6c1e-6f0d-4a52-8d0b-6f6f1d2f9a11",
                "correlation_id": "c-1",
                "causation_id": None,
                "timestamp": "2024-01-15T14:30:00.123Z",
                "actor_id": "user:17",
                "actor_kind": "HUMAN",
                "payload": {"loop_id": "l-1"},
                "idempotency_key": "LoopCreated:l-1",
            },
        ),
    )
