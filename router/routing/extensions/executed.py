"""The outcome of each extension of a pipeline, in order of time: `executed_extensions` of a decision.

Rule: docs/extensions.md#executed-extensions.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

_TEXT = '{"type":"%s","id":"%s","status":"%s","latency_ms":%.3f}'
OK, ERROR, WARN, IGNORE, SKIPPED = "ok", "error", "warn", "ignore", "skipped"


class ExecutedExtension(Struct, frozen=True, gc=False):
    """`type`: pre | validator | post. `status`: ok; error where its mode ended the pipeline, else warn or ignore; skipped."""

    type: str
    id: str
    status: str
    latency_ms: float


def executed_fields(executed: Sequence[ExecutedExtension]) -> list[dict[str, object]]:
    """The outcomes as JSON fields; milliseconds with three decimals."""
    return [{"type": one.type, "id": one.id, "status": one.status, "latency_ms": round(one.latency_ms, 3)} for one in executed]


def executed_text(executed: Sequence[ExecutedExtension]) -> str:
    """Compact JSON text: a decision's metadata is all strings. Nothing in it needs escaping: ids are subject tokens."""
    return "[" + ",".join([_TEXT % (one.type, one.id, one.status, one.latency_ms) for one in executed]) + "]"
