"""A consumer against a model: delivered in copies, refused, killed at any step, begun anew; each
event has one effect.
"""

import asyncio
import sqlite3
import tempfile
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from router.bus import BusSettings, Nak, SqliteProcessed
from router.bus.consumer import BusAnswer, EnvelopeProcessor
from router.contracts.envelope import MessageEnvelope, envelope_bytes
from router.core.message import Message
from router.core.outcome import Done, Retry
from router.core.user_functions import HandlerExited
from tests.support.bus import an_envelope

EVENT = st.integers(0, 4)


class Killed(BaseException):
    """The process ends here."""


class Consuming(RuleBasedStateMachine):
    """`effects` is what the file must hold: the events of which one delivery got as far as its
    commit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.home = tempfile.TemporaryDirectory()
        self.file = Path(self.home.name) / "keys.db"
        with closing(sqlite3.connect(self.file)) as connection:
            connection.execute("CREATE TABLE effects (id TEXT)")
        self.effects: set[str] = set()
        self.next: str = "works"
        self.begin()

    def begin(self) -> None:
        """A process' life: only the file is left of the one before."""
        self.store = SqliteProcessed(self.file, "sr-consumer-model")
        self.run(self.store.open())
        self.handling = EnvelopeProcessor(BusSettings(), self.handle, self.store)

    def handle(self, envelope: MessageEnvelope) -> BusAnswer:
        if self.next == "refuses":
            return Nak()
        if self.next == "is killed while it works":
            raise Killed
        return lambda cursor: self.write(cursor, envelope.message_id)

    def write(self, cursor: sqlite3.Cursor, message_id: str) -> None:
        cursor.execute("INSERT INTO effects VALUES (?)", (message_id,))
        if self.next == "is killed before its commit":
            raise Killed

    @rule(event=EVENT, copies=st.integers(1, 3))
    def delivered(self, event: int, copies: int) -> None:
        """Copies at once, as a prefetch holds them: all are acknowledged."""
        self.next = "works"
        outcomes = self.run(self.deliver(event, copies))
        assert outcomes == [Done()] * copies
        self.effects.add(f"evt_{event}")

    @rule(event=EVENT)
    def refused(self, event: int) -> None:
        """A Nak marks nothing; a known event is not even asked about."""
        self.next = "refuses"
        (outcome,) = self.run(self.deliver(event, 1))
        assert isinstance(outcome, Done if f"evt_{event}" in self.effects else Retry)

    @rule(
        event=EVENT,
        where=st.sampled_from(["is killed while it works", "is killed before its commit"]),
    )
    def killed(self, event: int, where: str) -> None:
        """Nothing is acknowledged, nothing of it is in the file, and the message comes again."""
        self.next = where
        is_known = f"evt_{event}" in self.effects
        try:
            self.run(self.deliver(event, 1))
            assert is_known
        except (Killed, HandlerExited):
            assert not is_known
            self.run(self.store.close())
            self.begin()

    @rule(event=EVENT)
    def killed_before_the_acknowledgement(self, event: int) -> None:
        """The effect is stored; the next process that gets the message acks it, and does nothing
        else.
        """
        self.delivered(event, 1)
        self.run(self.store.close())
        self.begin()

    @invariant()
    def each_effect_is_there_once(self) -> None:
        with closing(sqlite3.connect(self.file)) as connection:
            found = [row[0] for row in connection.execute("SELECT id FROM effects")]
        assert sorted(found) == sorted(self.effects)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()
        self.home.cleanup()

    async def deliver(self, event: int, copies: int) -> list[Any]:
        message = Message(
            "sr.events.loop", envelope_bytes(an_envelope(event)), {}, "S", "C", 1, 0, 1, ""
        )
        return await asyncio.gather(*(self.handling(message) for _ in range(copies)))  # type: ignore[arg-type]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)


TestConsuming = Consuming.TestCase
TestConsuming.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)
