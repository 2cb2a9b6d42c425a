"""Which tests one worker of xdist runs in a row, and which of them begin first.

A module's tests share its server, so one worker runs them all; a few modules share more than that
and form one unit. The stories start a server each and take seconds each: every one of them is a
unit of its own. What takes longest begins first, so that at the end the workers finish together.
xdist's own mark for groups does nothing here: xdist 3.8 writes it into an attribute that pytest 9.2
does not have.

A worker that dies fails one test, and the others run what it leaves. xdist 3.8 by itself waits for
ever there (https://github.com/pytest-dev/pytest-xdist/issues/1378 and 1327), and runs again what
has ended a worker.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

UNITS = {
    "spark": (  # one JVM, and what it has compiled is compiled for all of them
        "tests/lake/source/test_jetstream_format.py",
        "tests/lake/jobs/test_on_spark.py",
        "tests/lake/report/test_by_spark.py",
        "tests/lake/test_session.py",
        "tests/lake/stories/test_continuous.py",
        "tests/lake/stories/test_slow_start.py",
        "tests/lake/stories/test_cut_short.py",
    )
}
BY_TEST = ("tests/stories/", "tests/mailbox/")  # a server for each test
TOGETHER = ("tests/stories/test_causes_by_name.py",)  # but these share theirs
FIRST = (
    "tests/stories/kills/",
    "tests/lake/",
    "tests/serve/fleet/",
    "tests/rigs/neighbours/",
    "tests/rigs/faults/",
    "tests/stories/",
    "tests/mailbox/",
    "tests/clients/",
    "tests/cli/",
)

_UNIT_OF = {path: unit for unit, paths in UNITS.items() for path in paths}


def unit_of(nodeid: str) -> str:
    """The unit that a test belongs to."""
    path = nodeid.partition("::")[0]
    if path.startswith(BY_TEST) and path not in TOGETHER:
        return nodeid
    return _UNIT_OF.get(path, path)


def rank(nodeid: str) -> int:
    """Its place in the order: the lower, the sooner."""
    if unit_of(nodeid) == "spark":
        return -1
    return next(
        (place for place, prefix in enumerate(FIRST) if nodeid.startswith(prefix)), len(FIRST)
    )


class UnitScheduling(LoadScopeScheduling):
    """Hands out one unit after the other, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        # xdist would begin with what has most tests: those are the shortest
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Take a worker away, and put back what it has not run, but for the test that it died of:
        that one is the answer.
        """
        left = {
            name: unit
            for name, unit in self.assigned_work.pop(node).items()
            if not all(unit.values())
        }
        if not left:
            return None
        crashed, unit = next(
            (test, unit) for unit in left.values() for test, done in unit.items() if not done
        )
        unit[crashed] = True
        self.workqueue.update({name: unit for name, unit in left.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        """A worker begins its last test only when it knows of another one, or that none comes."""
        super()._reschedule(node)
        if not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
