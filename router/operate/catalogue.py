"""The shape of each message, published: JSON Schema made of the constants that its reader or writer
uses.

A message's shape stands beside its reader or writer, in the message's file of `contracts`.
`contracts/shapes` has what shapes share, and those of decide requests, of extensions and of the
bus. What workers, askers of providers and ingress send is a `MessageSpec`, of which reader and
shape are made. By hand stand the shapes of these:

    decide                               a field of it may stand in several places
    assignment, extension-request        what is always written may be absent where it is read, and
                                         its parts are encoded once for many requests
    answer, provider-call, alert, …      no Struct is written, or the page has an order of its own
    unread-report                        its reader reads one field

Tests read generated messages with the schema and with the reader and compare what both say
(tests/contracts/agreement).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from router.contracts.acknowledgement import ACKNOWLEDGEMENT_SPEC
from router.contracts.answer import build_answer
from router.contracts.assignment import build_assignment_shape
from router.contracts.heartbeat import HEARTBEAT_SPEC
from router.contracts.ingress import INGRESS_SPEC, build_ingress_ack
from router.contracts.message_spec import build_shape
from router.contracts.provider import build_provider_response
from router.contracts.provider_call import build_provider_answer, build_provider_call
from router.contracts.provider_chunk import build_chunk
from router.contracts.provider_request import PROVIDER_REQUEST_SPEC
from router.contracts.result import RESULT_SPEC
from router.contracts.shapes.decide import build_decide
from router.contracts.shapes.envelope import build_envelope_shape
from router.contracts.shapes.extension import (
    build_extension_message,
    build_extension_request,
    build_extension_verdict,
)
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.unread_report import build_unread_report
from router.contracts.usage import build_usage
from router.operate.audit.audit_event import build_audit_shape
from router.operate.operators_shape import (
    build_alert,
    build_dead_letter_shape,
    build_violation_shape,
)

__all__ = ["RECEIVED", "SENT", "MessageShape", "ShapeLimits", "build_shapes"]

BUILDERS: tuple[Callable[[ShapeLimits], MessageShape], ...] = (
    *(build_decide, build_answer),
    build_assignment_shape,
    *(partial(build_shape, ACKNOWLEDGEMENT_SPEC), partial(build_shape, RESULT_SPEC)),
    *(build_unread_report, partial(build_shape, HEARTBEAT_SPEC)),
    *(build_usage, build_alert, build_dead_letter_shape, build_violation_shape, build_audit_shape),
    *(build_extension_request, build_extension_message, build_extension_verdict),
    *(
        partial(build_shape, PROVIDER_REQUEST_SPEC),
        build_provider_response,
        build_chunk,
        build_provider_call,
        build_provider_answer,
    ),
    *(partial(build_shape, INGRESS_SPEC), build_ingress_ack),
    build_envelope_shape,
)


def build_shapes(limits: ShapeLimits = ShapeLimits()) -> Mapping[str, MessageShape]:  # noqa: B008 - frozen
    """Every message, by name."""
    return {shape.name: shape for shape in (build(limits) for build in BUILDERS)}
