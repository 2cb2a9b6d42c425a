"""An unreadable result: it becomes a dead letter, is edited, replayed and metered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from router.cli.demo.recorder import MessageRecorder, ObservedMessage
from router.cli.demo.round_trip import DemoSubjects, describe_outcome
from router.core.outcome import VALIDATION_FAILED
from router.operate.dead_letters import DeadLetter, ReplayReport

# A worker with a mistake: it sends "done" where the contract says success.
_RESULT: dict[str, Any] = {
    "request_id": "r-mended",
    "tenant_id": "globex",
    "provider_id": "anthropic",
    "job": {"type": "summary"},
    "latency_ms": 640,
    "cost": 0.015,
}
POISONED = orjson.dumps({**_RESULT, "status": "done"})
MENDED = orjson.dumps({**_RESULT, "status": "success"})


def describe_dead_letter(subjects: DemoSubjects, letter: DeadLetter, ms: float) -> Sequence[ObservedMessage]:
    """Describe the result as it was published, and its dead letter."""
    return (
        ObservedMessage("result", subjects.results, "status done", 0.0),
        ObservedMessage("dead letter", letter.subject, f"{letter.reason} at {letter.field}", ms),
    )


async def observe_replay(witness: MessageRecorder, subjects: DemoSubjects) -> Sequence[ObservedMessage]:
    """Observe the replayed result and its usage event."""
    return (
        await witness.wait_for("mended, replayed", subjects.results, lambda body: f"status {body['status']}"),
        await witness.wait_for("usage event", subjects.usage, describe_outcome),
    )


def check_repair(
    letter: DeadLetter | None, left: DeadLetter | None, report: ReplayReport, usage: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield what was not as expected. `left`: the dead letter after the replay; `usage`: every event since the result."""
    if letter is None or (letter.reason, letter.payload) != (VALIDATION_FAILED, POISONED):
        yield "the poisoned result left no dead letter of its own"
    if (report.sent, len(report.kept)) != (1, 0):
        yield f"the replay sent {report.sent}, kept {len(report.kept)}"
    if left is not None:
        yield "the dead letter is still there after its replay"
    if [event.get("request_id") for event in usage] != ["r-mended"]:
        yield f"the mended result was metered {len(usage)} times"
