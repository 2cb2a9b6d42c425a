"""The command `router demo` and its chapters: each does something, prints it, and returns what was
not as expected.

What the chapter of an unreadable result publishes, observes and expects stands last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from router.cli.demo.environment import DemoEnvironment, open_environment
from router.cli.demo.printing import DemoPrinter
from router.cli.demo.requests import (
    DEMO_STEPS,
    NO_TENANT_REQUEST,
    check_answers,
    check_counters,
    check_dead_letter,
)
from router.cli.demo.round_trip import (
    BODY,
    DemoSubjects,
    MessageRecorder,
    ObservedMessage,
    check_round_trip,
    describe_decision,
    describe_outcome,
    describe_request,
    observe_work,
)
from router.core.outcome import VALIDATION_FAILED
from router.operate.dead_letters import DeadLetter, ReplayReport
from router.process.observability import configure
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings

# -- The command.

Problems = list[str]


@command(skip_settings)
async def demo(session: CommandSession) -> int:
    """Start a router and a worker on a NATS server of its own: decisions, the whole circle, dead
    letters, a replay.

    Exit status: 0 every check passed, 1 one did not.

    Example:  router demo
    """
    telling = DemoPrinter(as_json=session.as_json)
    configure("error")
    problems: list[str] = []
    async with open_environment() as stage:
        telling.print_start(stage.ready)
        for act in (play_decisions, play_round_trip, play_repair):
            problems += await act(stage, telling)
        counted = await stage.read_counters()
        telling.print_counters(counted)
        problems += check_counters(counted)
    telling.print_end(problems)
    return exit_codes.NO if problems else exit_codes.OK


# -- The chapters.


async def play_decisions(stage: DemoEnvironment, telling: DemoPrinter) -> Problems:
    """Send requests in every form, and a malformed one."""
    asked = [await stage.ask(step) for step in DEMO_STEPS]
    telling.print_answers(asked)
    refused, dead_letter = (
        await stage.ask(NO_TENANT_REQUEST),
        await stage.wait_for_dead_letter(stage.settings.decide.subject),
    )
    telling.print_dead_letter(refused, dead_letter)
    return [*check_answers([*asked, refused]), *check_dead_letter(dead_letter)]


async def play_round_trip(stage: DemoEnvironment, telling: DemoPrinter) -> Problems:
    """Follow one request from its decision to its usage event."""
    subjects, witness = DemoSubjects(stage.settings), stage.witness
    witness.begin()
    answer = await stage.decide(BODY)
    decided = describe_decision(answer, witness.now_ms)
    if not answer.ok:
        return ["the pushed request was refused"]
    way = (describe_request(subjects), decided, *await observe_work(witness, subjects))
    telling.print_steps(
        "The whole circle",
        (
            "one request followed to the event that is billed; the assignment is stored before "
            "the answer is sent"
        ),
        way,
    )
    return list(check_round_trip(way, await stage.read_stored_status(way[2].body["assignment_id"])))


async def play_repair(stage: DemoEnvironment, telling: DemoPrinter) -> Problems:
    """Publish an unreadable result, find its dead letter, edit and replay it."""
    subjects, witness = DemoSubjects(stage.settings), stage.witness
    witness.begin()
    await stage.publish(subjects.results, POISONED)
    dead_letter = await stage.wait_for_dead_letter(subjects.results)
    if dead_letter is None:
        return ["the poisoned result left no dead letter"]
    kept = describe_dead_letter(subjects, dead_letter, witness.now_ms)
    report = await stage.replay_with(dead_letter, MENDED)
    processed = await observe_replay(witness, subjects)
    telling.print_steps(
        "An unreadable result",
        "kept as a dead letter, mended, sent again, metered",
        (*kept, *processed),
    )
    return list(
        check_repair(
            dead_letter,
            await stage.read_dead_letter(dead_letter.sequence),
            report,
            witness.list_bodies(subjects.usage),
        )
    )


# -- An unreadable result: it becomes a dead letter, is edited, replayed and metered.

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


def describe_dead_letter(
    subjects: DemoSubjects, dead_letter: DeadLetter, ms: float
) -> Sequence[ObservedMessage]:
    """Describe the result as it was published, and its dead letter."""
    return (
        ObservedMessage("result", subjects.results, "status done", 0.0),
        ObservedMessage(
            "dead letter", dead_letter.subject, f"{dead_letter.reason} at {dead_letter.field}", ms
        ),
    )


async def observe_replay(
    witness: MessageRecorder, subjects: DemoSubjects
) -> Sequence[ObservedMessage]:
    """Observe the replayed result and its usage event."""
    return (
        await witness.wait_for(
            "mended, replayed", subjects.results, lambda body: f"status {body['status']}"
        ),
        await witness.wait_for("usage event", subjects.usage, describe_outcome),
    )


def check_repair(
    dead_letter: DeadLetter | None,
    left: DeadLetter | None,
    report: ReplayReport,
    usage: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """Yield what was not as expected. `left`: the dead letter after the replay; `usage`: every
    event since the result.
    """
    if dead_letter is None or (dead_letter.reason, dead_letter.payload) != (
        VALIDATION_FAILED,
        POISONED,
    ):
        yield "the poisoned result left no dead letter of its own"
    if (report.sent, len(report.kept)) != (1, 0):
        yield f"the replay sent {report.sent}, kept {len(report.kept)}"
    if left is not None:
        yield "the dead letter is still there after its replay"
    if [event.get("request_id") for event in usage] != ["r-mended"]:
        yield f"the mended result was metered {len(usage)} times"
