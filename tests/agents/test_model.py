"""T21: an agent's store against a model, whatever is published, delivered, delivered again, sent
back, expired or killed.

The broker here is a dictionary with a JetStream's habits: it delivers again what is not
acknowledged, and forgets message ids after a while. The store is real, and so is everything that
works on it. No message is given up: that is another promise.
"""

import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from router.agents import batch as batch_module
from router.core.outcome import Done, Outcome, PublishAck
from tests.support.agents import BATCH_POINTS, BatchBench, a_message

KEYS = st.sampled_from(["a", "b", "c"])
NEVER = 1_000_000  # attempts


class Killed(BaseException):
    """The process is gone, in the middle of whatever it did."""


class AgentMachine(RuleBasedStateMachine):
    """Rules are what can happen to an agent; invariants are what it promises."""

    @initialize()
    def begin(self) -> None:
        self.home = tempfile.TemporaryDirectory()
        self.bench = BatchBench(Path(self.home.name) / "w.db", limit=NEVER)
        # by sequence: key, deliveries; gone once acknowledged
        self.queue: dict[int, tuple[str, int]] = {}
        self.sequence = 0
        self.published: set[str] = set()
        self.stream: Counter[str] = Counter()  # outgoing messages by id, as the broker stored them
        self.window: set[str] = set()  # ids that the broker remembers
        self.dies_at: str | None = None

    # -- what can happen ---------------------------------------------------------------------------

    @rule(key=KEYS)
    def publish(self, key: str) -> None:
        self.sequence += 1
        self.queue[self.sequence] = (key, 0)
        self.published.add(key)

    @rule(most=st.integers(1, 4), is_acknowledged=st.booleans(), is_sent=st.booleans())
    def deliver(self, most: int, is_acknowledged: bool, is_sent: bool) -> None:
        """A batch; its messages are published or not, its acks arrive or not: a process may die
        between any two.
        """
        taken = sorted(self.queue)[:most]
        for sequence in taken:
            self.queue[sequence] = (self.queue[sequence][0], self.queue[sequence][1] + 1)
        messages = [
            a_message(sequence, self.queue[sequence][0], deliveries=self.queue[sequence][1])
            for sequence in taken
        ]
        outcomes = self.bench.batch.handle(messages) if messages else []
        for sequence, outcome in zip(taken, outcomes, strict=True):
            if is_sent and self._send(outcome) and is_acknowledged:
                del self.queue[sequence]

    @rule(most=st.integers(1, 4), point=st.sampled_from(BATCH_POINTS))
    def deliver_and_be_killed(self, most: int, point: str) -> None:
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_module, "crashpoint", self._die_at(point))
            self.deliver(most, True, True)
        self.restart()

    @rule(point=st.sampled_from(BATCH_POINTS))
    def restart_and_be_killed(self, point: str) -> None:
        """While it finishes what an earlier life left."""
        with suppress(Killed), pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_module, "crashpoint", self._die_at(point))
            self.restart()
        self.restart()

    @rule()
    def restart(self) -> None:
        """What start-up does: apply what was received, send what was not sent."""
        self.bench.reopen()
        for row in self.bench.store.list_resumable(NEVER):
            self.bench.batch.resume(row)
        after = (0, -1)
        while page := self.bench.store.list_unsent(*after):
            self.bench.publish_acks.expect(page)
            for one in page:
                self._store(one.id)
            self._write_down()
            after = (page[-1].place, page[-1].number)

    @rule()
    def expire_the_window(self) -> None:
        """The broker forgets ids. Only what is marked as sent, and so never sent again, may be
        forgotten.
        """
        self._write_down()
        unmarked = {
            row[0] for row in self.bench.rows("SELECT id FROM outgoing WHERE stored_seq IS NULL")
        }
        self.window &= unmarked

    # -- what it promises --------------------------------------------------------------------------

    @invariant()
    def no_effect_is_doubled(self) -> None:
        """MF-7: neither in the state nor in the stream."""
        assert all(self.bench.times(key) <= 1 for key in self.published)
        assert all(count == 1 for count in self.stream.values())

    @invariant()
    def no_acknowledged_message_is_lost(self) -> None:
        """MF-5, MF-6: what is not in the queue any more has its effect, and its message in the
        stream.
        """
        waiting = {key for key, _ in self.queue.values()}
        for key in self.published - waiting:
            assert self.bench.times(key) == 1
        assert len(self.stream) >= len(self.published - waiting)

    def teardown(self) -> None:
        """In the end everything is delivered once more: then nothing may be missing."""
        if not hasattr(self, "bench"):
            return
        while self.queue:
            self.deliver(4, True, True)
        self.restart()
        assert {key: self.bench.times(key) for key in self.published} == dict.fromkeys(
            self.published, 1
        )
        assert len(self.stream) == len(self.published)
        self.bench.close()
        self.home.cleanup()

    # -- the broker --------------------------------------------------------------------------------

    def _send(self, outcome: Outcome) -> bool:
        if not isinstance(outcome, Done):
            return False
        for effect in outcome.effects:
            self._store(effect.id)
        return True

    def _store(self, message_id: str) -> None:
        if message_id not in self.window:
            self.window.add(message_id)
            self.stream[message_id] += 1
        self.bench.publish_acks.note(
            [PublishAck(message_id, "MESHFORGE_EVENTS", len(self.stream), False)]
        )

    def _write_down(self) -> None:
        with self.bench.store.transaction():
            self.bench.store.mark(self.bench.publish_acks.take())

    @staticmethod
    def _die_at(wanted: str) -> object:
        def point(name: str) -> None:
            if name == wanted:
                raise Killed

        return point


TestAgentMachine = AgentMachine.TestCase
TestAgentMachine.settings = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
