"""Infos of streams and consumers: one of several instances asks the server, and all instances hear
the answer.

    read ── an answer that is young enough was heard ──> it, without a call
      └── none ──> ask the server, publish the answer ──> every instance keeps it

So idle instances cost the server as many calls as one instance costs it. Each caller spreads its
rounds (`core.clock.spread`). The instance that asked last goes on asking, because it finds its
own answers too old in its next round, and the others find theirs too old only when it has missed
one. An answer may be as old as `max_age`, a heard one two to four times as old; what decides asks
with `max_age` 0. Where the server gives no answer any more, the instance that asks says so, and
every instance asks for itself.

Instances trust these messages, so only routers may publish on the subject. Two places that a leaf
node joins have one account and two JetStreams with streams of the same names; so an answer is taken
only from the domain that this instance's own first answer names.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import orjson
from msgspec import Struct

from router.core.clock import Clock, steady
from router.core.errors import NoLeader, RouterError
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.frames import Headers
from router.delivery.wire.server_state import require_quorum

SHARED_INFO = "beamline.router.v1.internal.info"
# How much older than its own answer a heard one may be: longer than the longest time between two
# rounds of the instance that asks. It is random, so that few instances find it too old at the same
# moment, and the same within a round.
HEARD_AGE = (2.2, 4.0)
# an instance that asks for one answer of a round asks for all: they are one message, and one
# instance asks from then on
ROUND_S = 1.0
# answers within this time are one message; with 0.2 a round took seven where the machine was busy,
# each to every instance
GATHER_S = 1.0
NO_ANSWER = b"?"
# of one message; what is above it is not published, and each instance asks for it
MAX_SHARED_BYTES = 256 * 1024


class SharedAnswer(Struct, frozen=True):
    """An answer, None for "there is none", and when it came (steady seconds)."""

    info: Json | None
    at: float
    is_own: bool  # this instance asked


class SharedInfo:
    """For one connection. Outside `listen` it asks for everything itself, and publishes nothing."""

    def __init__(self, jetstream: JetStream, clock: Clock = steady) -> None:
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._clock = clock
        self._answers: dict[str, SharedAnswer | None] = {}  # only what this instance has asked for
        self._is_listening = False
        # its own messages come back to it, and would make its answers heard ones
        self._instance = uuid.uuid4().hex.encode()
        self._unpublished: set[str] = set()
        self._heard_age, self._drawn_at = HEARD_AGE[0], -ROUND_S
        self._asked_at = float("-inf")  # for an answer that was too old
        # when a stream's info came that shows a quorum: this server hears the others
        self.quorum_seen_at = float("-inf")
        self._domain: str | None = None  # None: this instance has no answer of its own yet
        self._reconnects = 0  # when it had that answer; another server may be in another domain

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        """Hear the answers of other instances, and publish this one's."""
        sid = await self._connection.subscribe_direct(SHARED_INFO, self._on_answer)
        self._is_listening = True
        try:
            yield
        finally:
            self._is_listening = False
            await self._connection.unsubscribe(sid, at_once=True)

    async def stream(self, name: str, max_age: float = 0.0) -> Json | None:
        """A stream's info, at most `max_age` seconds old; None: there is none. Raises as
        `JetStream.stream` does.
        """
        return await self.read(f"STREAM.INFO.{name}", max_age, partial(self._ask_stream, name))

    async def consumer(self, stream: str, durable: str, max_age: float = 0.0) -> Json | None:
        """A consumer's info, likewise."""
        return await self.read(
            f"CONSUMER.INFO.{stream}.{durable}",
            max_age,
            partial(self._jetstream.consumer, stream, durable),
        )

    async def read(
        self, key: str, max_age: float, ask: Callable[[], Awaitable[Json | None]]
    ) -> Json | None:
        """The answer under a key: a heard one, if it is young enough, else that of `ask`."""
        return (await self.read_answer(key, max_age, ask)).info

    async def read_answer(
        self, key: str, max_age: float, ask: Callable[[], Awaitable[Json | None]]
    ) -> SharedAnswer:
        """The same, with the time when it came."""
        heard = self._answers.setdefault(key, None)
        if heard is not None and self._is_young(heard, max_age):
            return heard
        if max_age:
            self._asked_at = self._clock()
        try:
            info = await ask()
        except RouterError:
            self._forget(key)
            raise
        answer = self._answers[key] = SharedAnswer(info, self._clock(), is_own=True)
        self._look_for_quorum(info)
        if self._is_listening:
            self._publish_soon(key)
        return answer

    def find_newest(self, key: str) -> SharedAnswer | None:
        """The newest answer that came, of whatever age; the server is not asked."""
        return self._answers.get(key)

    def _is_young(self, answer: SharedAnswer, max_age: float) -> bool:
        now = self._clock()
        if now - self._drawn_at > ROUND_S:
            self._heard_age, self._drawn_at = random.uniform(*HEARD_AGE), now  # noqa: S311 - no secret
        heard_limit = ROUND_S if now - self._asked_at < ROUND_S else max_age * self._heard_age
        return self._has_domain and now - answer.at < (max_age if answer.is_own else heard_limit)

    def _forget(self, key: str) -> None:
        """There is no answer any more. The instance whose answer the others have tells them, once."""
        answer, self._answers[key] = self._answers.get(key), None
        if answer is not None and answer.is_own and self._is_listening:
            self._publish_soon(key)

    def _publish_soon(self, key: str) -> None:
        """With what is asked for within moments: a round of twenty infos is one message to each
        instance.
        """
        if not self._unpublished:
            asyncio.get_running_loop().call_later(GATHER_S, self._publish)
        self._unpublished.add(key)

    def _publish(self) -> None:
        keys, self._unpublished = self._unpublished, set()
        if not self._is_listening or not self._has_domain:
            return
        parts, size = [self._scope + self._instance], 0
        for key in keys:
            answer = self._answers[key]
            part = (
                key.encode()
                + b" "
                + (orjson.dumps(answer.info) if answer is not None else NO_ANSWER)
            )
            size += len(part)
            if size <= MAX_SHARED_BYTES:
                parts.append(part)
        self._connection.publish_nowait(SHARED_INFO, b"\n".join(parts))

    async def _ask_stream(self, name: str) -> Json | None:
        reconnects = self._connection.reconnect_count
        info = await self._jetstream.stream(name)
        if info is not None:
            self._domain, self._reconnects = info.get("domain", ""), reconnects
        return info

    @property
    def _has_domain(self) -> bool:
        return self._domain is not None and self._reconnects == self._connection.reconnect_count

    @property
    def _scope(self) -> bytes:
        return f"{self._jetstream.prefix} {self._domain} ".encode()

    def _on_answer(self, _subject: str, _reply: str, data: bytes, _headers: Headers | None) -> None:
        head, *parts = data.split(b"\n")
        if (
            not self._has_domain
            or not head.startswith(self._scope)
            or head.endswith(self._instance)
        ):
            return
        for part in parts:
            named, _, body = part.partition(b" ")
            key = named.decode("utf-8", "replace")
            if key in self._answers and body == NO_ANSWER:
                self._answers[key] = None
            elif key in self._answers:
                with suppress(orjson.JSONDecodeError):
                    self._on_info(key, orjson.loads(body))

    def _on_info(self, key: str, info: object) -> None:
        if info is None or isinstance(info, dict):
            self._answers[key] = SharedAnswer(info, self._clock(), is_own=False)
            self._look_for_quorum(info)

    def _look_for_quorum(self, info: Json | None) -> None:
        """A stream's info with a quorum has come through the cluster, or is of a leader here, which
        hears its followers.
        """
        if info is not None and "state" in info:
            with suppress(NoLeader):
                require_quorum("", info)
                self.quorum_seen_at = self._clock()


class RecentInfo(Struct, frozen=True):
    """Infos that are at most `max_age` seconds old, for code that knows of no age."""

    infos: SharedInfo
    max_age: float

    async def stream(self, name: str) -> Json | None:
        return await self.infos.stream(name, self.max_age)

    async def consumer(self, stream: str, durable: str) -> Json | None:
        return await self.infos.consumer(stream, durable, self.max_age)
