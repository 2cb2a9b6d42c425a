"""The run: question after question, told as it goes and kept as it goes. One that breaks does not
take the others with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from bench.plan import Plan, clock
from bench.question import Broken, Question
from bench.rounds import Answer, ask

Say = Callable[[str], None]


class Run:
    """`answers` and `broken` hold what is known so far, also when the run is interrupted."""

    def __init__(self, plan: Plan, say: Say, keep: Callable[[Run], None]) -> None:
        self.plan = plan
        self.answers: list[Answer] = []
        self.broken: dict[str, str] = {}  # why, by question
        self._say = say
        self._keep = keep  # called after every question
        self._begun = time.monotonic()

    async def go(self) -> None:
        """Ask them all. Raises nothing that a question is to blame for."""
        self._say(
            f"{len(self.plan.questions)} questions, about {clock(self.plan.all_s())} "
            "(minutes:seconds) on two quiet cores"
        )
        for number, question in enumerate(self.plan.questions, 1):
            await self._ask(number, question)
            self._keep(self)

    async def _ask(self, number: int, question: Question) -> None:
        told = partial(self._tell, number, question)
        try:
            self.answers.append(
                await ask(
                    question,
                    self.plan.rounds,
                    self.plan.scale_of(question),
                    told,
                    self.plan.ways,
                )
            )
        except Broken as exc:
            self.broken[question.name] = str(exc)
            self._say(f"{question.name} is broken: {str(exc).splitlines()[-1]}")

    def _tell(self, number: int, question: Question, rounds_done: int, found: str) -> None:
        of = (
            f"{number}/{len(self.plan.questions)} {question.name}  round "
            f"{rounds_done}/{question.rounds(self.plan.rounds)}"
        )
        gone, left = time.monotonic() - self._begun, self.plan.left_s(number, rounds_done)
        self._say(f"{of}  {clock(gone)} gone, about {clock(left)} left  {found}")
