"""One mutant's way: it stands in a tree, the nearest tests run, and what they say is believed only
if they pass without it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from tests.rigs.mutants.changes import Change
from tests.rigs.mutants.trees import Process, Tree

# The nearest of them first: most mutants are killed there.
FIRST = 5


class Verdict(StrEnum):
    KILLED = "killed"
    HANGS = "hangs"
    SURVIVED = "survived"
    JUDGED = "judged"
    NO_TEST = "no test"
    UNCLEAR = "unclear"


# What a user would not have noticed before a release.
ALIVE = (Verdict.SURVIVED, Verdict.NO_TEST)


@dataclass(frozen=True, kw_only=True)
class Finding:
    change: Change
    verdict: Verdict
    by: str | None = None
    ran: int = 0
    files: Sequence[str] = ()
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        change = {
            name: value
            for name, value in asdict(self.change).items()
            if name not in {"new", "parent", "field_name", "position"}
        }
        return {
            **change,
            "verdict": str(self.verdict),
            "by": self.by,
            "ran": self.ran,
            "files": list(self.files),
            "reason": self.reason,
        }


class Bench:
    """A tree, a process whose imports are done, and one that imports for each mutant."""

    def __init__(self, tree: Tree, warm: Process, cold: Process, limit: float) -> None:
        self._tree = tree
        self._warm = warm
        self._cold = cold
        self._limit = limit
        for process in (warm, cold):
            process.wait_until_ready()
        # Tests that fail without a mutant, too, and those that do not.
        self._red: list[str] = []
        self._green: set[str] = set()

    def try_change(self, change: Change, files: Sequence[str]) -> Finding:
        if not files:
            return Finding(change=change, verdict=Verdict.NO_TEST)
        ran = 0
        for batch in filter(None, (files[:FIRST], files[FIRST:])):
            finding = self._run_batch(change, batch)
            ran += finding.ran
            if finding.verdict is not Verdict.SURVIVED:
                return finding
        return Finding(change=change, verdict=Verdict.SURVIVED, ran=ran, files=files)

    def _run_batch(self, change: Change, batch: Sequence[str]) -> Finding:
        while True:
            answer = self._run_with(change, batch)
            if answer["status"] == "passed":
                return Finding(change=change, verdict=Verdict.SURVIVED, ran=answer["ran"])
            if answer["status"] == "hangs":
                return self._judge_hanging(change, batch)
            test = answer["test"]
            if test is None or self._passes_without(test):
                by = test or "the process of the tests ended"
                return Finding(change=change, verdict=Verdict.KILLED, by=by, ran=answer["ran"])
            self._red.append(test)

    def _run_with(self, change: Change, batch: Sequence[str]) -> dict[str, Any]:
        with self._tree.hold(change) as mutant:
            if not change.at_import:
                answer = self._warm.run(batch, self._limit, mutant, self._red)
                if answer["status"] != "cannot":
                    return answer
            return self._cold.run(batch, self._limit, None, self._red)

    def _passes_without(self, test: str) -> bool:
        if test not in self._green:
            # A file that could not be imported stands there by its path.
            if self._warm.run([test], self._limit)["status"] == "failed":
                return False
            self._green.add(test)
        return True

    def _judge_hanging(self, change: Change, batch: Sequence[str]) -> Finding:
        clean = self._warm.run(batch, self._limit, None, self._red)
        verdict = Verdict.UNCLEAR if clean["status"] == "hangs" else Verdict.HANGS
        return Finding(change=change, verdict=verdict, files=batch)
