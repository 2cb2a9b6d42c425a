"""The shape of each message, published: JSON Schema made of the constants that its reader or writer uses.

    parts             kinds of values that schemas share
    precedence        several places of one field, the first of which counts
    message_shape     a message's name, schema and examples
    decide, answer    a request and its answer
    worker            results, acknowledgements
    assignment        work for a worker
    usage             what an outcome cost

Tests read generated messages with the schema and with the reader and compare what both say (tests/contracts/shapes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router.contracts.shapes.answer import build_answer
from router.contracts.shapes.assignment import build_assignment
from router.contracts.shapes.decide import build_decide
from router.contracts.shapes.message_shape import RECEIVED, SENT, MessageShape, ShapeLimits
from router.contracts.shapes.usage import build_usage
from router.contracts.shapes.worker import build_ack, build_result

__all__ = ["RECEIVED", "SENT", "MessageShape", "ShapeLimits", "build_shapes"]

BUILDERS: tuple[Callable[[ShapeLimits], MessageShape], ...] = (
    build_decide,
    build_answer,
    build_assignment,
    build_ack,
    build_result,
    build_usage,
)


def build_shapes(limits: ShapeLimits = ShapeLimits()) -> Mapping[str, MessageShape]:  # noqa: B008 - frozen
    """Every message, by name."""
    return {shape.name: shape for shape in (build(limits) for build in BUILDERS)}
