"""Which questions a run asks, how often, and about how long that takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from bench.question import Question
from bench.ways import Way


class Plan(Struct, frozen=True):
    """A run before it begins. `long_scale`: of the long questions; None = as of the others.
    `ways`: in which each is asked (`ways`).
    """

    questions: tuple[Question, ...]
    rounds: int
    scale: float
    long_scale: float | None = None
    ways: tuple[Way, ...] = (Way(),)

    def scale_of(self, question: Question) -> float:
        return self.long_scale if question.is_long and self.long_scale is not None else self.scale

    def round_s(self, question: Question) -> float:
        """Seconds of one round, roughly, on two cores."""
        begin, work = question.lasts
        times = 1 if question.unaffected else len(self.ways)
        return times * (begin + work * self.scale_of(question))

    def question_s(self, question: Question) -> float:
        return question.rounds(self.rounds) * self.round_s(question)

    def left_s(self, number: int, rounds_done: int) -> float:
        """What is left when question `number` (from 1) has had so many of its rounds."""
        asked = self.questions[number - 1]
        return (
            self.all_s(self.questions[number:])
            + self.question_s(asked)
            - rounds_done * self.round_s(asked)
        )

    def all_s(self, questions: Iterable[Question] | None = None) -> float:
        return sum(map(self.question_s, self.questions if questions is None else questions))


def clock(seconds: float) -> str:
    """For people: 0:07, 12:30."""
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    return f"{minutes}:{rest:02d}"
