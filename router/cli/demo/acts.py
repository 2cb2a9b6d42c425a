"""The demo's chapters: each does something, prints it, and returns what was not as expected."""

from __future__ import annotations

from router.cli.demo.circle import BODY, Subjects, circle_wrong, decision_sight, request_sight, work_sights
from router.cli.demo.mending import MENDED, POISONED, letter_sights, mending_wrong, replay_sights
from router.cli.demo.stage import Stage
from router.cli.demo.story import BROKEN, STEPS, letter_wrong, wrong
from router.cli.demo.telling import Telling

Problems = list[str]


async def decisions(stage: Stage, telling: Telling) -> Problems:
    """Send requests in every form, and a malformed one."""
    asked = [await stage.asked(step) for step in STEPS]
    telling.answers(asked)
    refused, letter = await stage.asked(BROKEN), await stage.letter_of(stage.settings.decide.subject)
    telling.letter(refused, letter)
    return [*wrong([*asked, refused]), *letter_wrong(letter)]


async def circle(stage: Stage, telling: Telling) -> Problems:
    """Follow one request from its decision to its usage event."""
    subjects, witness = Subjects(stage.settings), stage.witness
    witness.begin()
    answer = await stage.answer_to(BODY)
    decided = decision_sight(answer, witness.now_ms)
    if not answer.ok:
        return ["the pushed request was refused"]
    way = (request_sight(subjects), decided, *await work_sights(witness, subjects))
    telling.way(
        "The whole circle", "one request followed to the event that is billed; the assignment is stored before the answer is sent", way
    )
    return list(circle_wrong(way, await stage.stored_ack(way[2].body["assignment_id"])))


async def mending(stage: Stage, telling: Telling) -> Problems:
    """Publish an unreadable result, find its dead letter, edit and replay it."""
    subjects, witness = Subjects(stage.settings), stage.witness
    witness.begin()
    await stage.publish(subjects.results, POISONED)
    letter = await stage.letter_of(subjects.results)
    if letter is None:
        return ["the poisoned result left no dead letter"]
    kept = letter_sights(subjects, letter, witness.now_ms)
    report = await stage.replayed(letter, MENDED)
    processed = await replay_sights(witness, subjects)
    telling.way("A result nobody can read", "kept as a dead letter, mended, sent again, metered", (*kept, *processed))
    return list(mending_wrong(letter, await stage.letter_at(letter.sequence), report, witness.all_on(subjects.usage)))
