"""The shape of each message, published: JSON Schema made of the constants that its reader or writer
uses.

    parts             kinds of values that schemas share
    precedence        several places of one field, the first of which counts
    message_shape     a message's name, schema and examples
    decide, answer    a request and its answer
    assignment        work for a worker
    worker            acknowledgements, results, reports of unread bytes, heartbeats; `enveloped`:
                      bare or in an envelope
    usage             what an outcome cost
    operators         alerts, violations, dead letters
    audit             what an operator wrote
    extension         requests to extensions and their answers
    provider          providers, invoked through the router and called by it
    ingress           messages that become requests
    envelope          events and commands of the bus
    fields            the fields that a schema names, for pages and for commands

Tests read generated messages with the schema and with the reader and compare what both say
(tests/contracts/shapes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router.contracts.shapes.answer import build_answer
from router.contracts.shapes.assignment import build_assignment
from router.contracts.shapes.decide import build_decide
from router.contracts.shapes.envelope import build_envelope_shape
from router.contracts.shapes.extension import (
    build_extension_message,
    build_extension_request,
    build_extension_verdict,
)
from router.contracts.shapes.ingress import build_ingress, build_ingress_ack
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.provider import (
    build_chunk,
    build_provider_answer,
    build_provider_call,
    build_provider_request,
    build_provider_response,
)
from router.contracts.shapes.usage import build_usage
from router.contracts.shapes.worker import (
    build_ack,
    build_heartbeat,
    build_result,
    build_unread_report,
)
from router.operate.audit.shape import build_audit_shape
from router.operate.operators_shape import (
    build_alert,
    build_dead_letter_shape,
    build_violation_shape,
)

__all__ = ["RECEIVED", "SENT", "MessageShape", "ShapeLimits", "build_shapes"]

BUILDERS: tuple[Callable[[ShapeLimits], MessageShape], ...] = (
    *(build_decide, build_answer),
    *(build_assignment, build_ack, build_result, build_unread_report, build_heartbeat),
    *(build_usage, build_alert, build_dead_letter_shape, build_violation_shape, build_audit_shape),
    *(build_extension_request, build_extension_message, build_extension_verdict),
    *(
        build_provider_request,
        build_provider_response,
        build_chunk,
        build_provider_call,
        build_provider_answer,
    ),
    *(build_ingress, build_ingress_ack),
    build_envelope_shape,
)


def build_shapes(limits: ShapeLimits = ShapeLimits()) -> Mapping[str, MessageShape]:  # noqa: B008 - frozen
    """Every message, by name."""
    return {shape.name: shape for shape in (build(limits) for build in BUILDERS)}
