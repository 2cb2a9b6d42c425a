"""The listener: a plain subscription on the request subject, to learn the requesters' inboxes
(docs/reference/contracts.md#replies). And whether the stream stores what is heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import nats.errors
from msgspec import Struct

from router.core.clock import Clock
from router.core.errors import RouterError
from router.delivery.consume.task_pool import BackgroundTasks
from router.delivery.replies.overload import ReadAhead
from router.delivery.replies.passing import PassingRequests
from router.delivery.replies.reply_sender import (
    IDENTICAL,
    PASSING_ASKERS,
    PASSING_REPLIES,
    ReplySender,
)
from router.delivery.wire.api import JetStream, Json, nanos
from router.delivery.wire.reconnecting import RetryTimer
from router.delivery.wire.shared_info import SharedInfo

# -- Whether the stream stores the requests that are heard
# (docs/reference/contracts.md#heard-not-stored).
#
# Their stream is `no_ack`, so the server is silent where it stores none: the account has no room,
# the disk is full, the subject was taken off the stream, the stream was deleted. What passes by
# is therefore compared with what is stored:
#
# heard ── a message was delivered that was stored since ──> stored
#   └── none for BOUND_S: ask for the stream's info ── it stored a message since ──> stored
#              └── two infos, none, and not each of what was heard can be a copy of a stored request ──> `cause`
#
# What is heard within the duplicate window of the newest stored request may be its copy, which the
# stream drops by rule.


BOUND_S = 1.5  # from hearing a request to looking for it in the stream
AGAIN_S = 1.0  # between two infos
SLACK_S = 0.5  # of the server's clock as this process reads it, and of a request's way
FORGET_S = 10.0  # without a request that is heard
# what a stream that is not there has stored
MISSING: Json = {"state": {"last_seq": -1, "last_ts": "1970-01-01T00:00:00Z"}}


class UnstoredRequests:
    """Of one stream. `cause`: what is wrong; None while requests are stored, or nothing is known of
    them.

    `find_stored_at`: when the message of the newest delivery was stored. `clock`: of the server
    that stores them, seconds since the epoch, as that is. `on_change` is called with each new
    cause.
    """

    def __init__(
        self,
        stream: str,
        duplicate_window_s: float,
        *,
        find_stored_at: Callable[[], float],
        on_change: Callable[[str | None], None],
        clock: Clock,
    ) -> None:
        self._stream = stream
        self._window_s = duplicate_window_s
        self._find_stored_at = find_stored_at
        self._on_change = on_change
        self._clock = clock
        self._heard = 0
        # the oldest request that was heard and not found in the stream
        self._first_at: float | None = None
        self._newest_at = self._asked_at = 0.0
        self._last_sequence: int | None = None  # of the info before
        self.cause: str | None = None

    def look(self, heard: int) -> bool:
        """Whether the server should be asked. `heard`: the requests so far that a stream with room
        stores. Called fifty times a second.
        """
        if heard == self._heard and self._first_at is None:
            return False
        now = self._clock()
        if heard != self._heard:
            self._heard, self._newest_at = heard, now
        if self._first_at is None:
            self._first_at = now
        if self._find_stored_at() >= self._first_at - SLACK_S or now - self._newest_at > FORGET_S:
            self.reset()
            return False
        return now - self._first_at >= BOUND_S and now - self._asked_at >= AGAIN_S

    def on_info(self, info: Json | None) -> None:
        """Take what the server told of the stream; None: there is none."""
        state, before = (info or MISSING)["state"], self._last_sequence
        self._asked_at, self._last_sequence = self._clock(), state["last_seq"]
        stored_at = nanos(state["last_ts"]) / 1e9
        if self._first_at is None or before is None:
            return
        if self._last_sequence != before or stored_at >= self._first_at - SLACK_S:
            self.reset()
        elif self._newest_at > stored_at + self._window_s + SLACK_S:
            self._change(
                f"requests are heard, and the stream {self._stream} stores none: look at "
                "its room, its subjects and the disk"
            )

    def reset(self) -> None:
        """Nothing is known of what was heard so far."""
        self._first_at = self._last_sequence = None
        self._change(None)

    def _change(self, cause: str | None) -> None:
        if cause != self.cause:
            self.cause = cause
            self._on_change(cause)


# -- The listener: a plain subscription on the request subject, to learn the requesters' inboxes.


LISTENER_TICK_S = 0.02
LEARN_TICKS = 250  # ticks between two checks that the stream was not re-created
# of the stream's info in such a check; the topology's monitor asks for it more often than that
MAX_AGE_S = 7.0
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 2.0
# Two subscriptions hear for so long when one takes the other's place. The server matches a message
# with those that it knows and then sends it, while SUB and UNSUB are read beside that: a message
# matched before SUB and sent after UNSUB would reach neither.
OVERLAP_S = 0.1
SWITCH_S = 30.0  # for the server's PONG, which waits in the socket behind all that came before it
NOTHING_YET = 2**63  # no sequence is above it: no inbox is expected


class ListenedSubject(Struct, frozen=True, kw_only=True):
    """What is listened to. `queue`: the group whose instances share the passing copies."""

    stream: str
    subject: str
    queue: str = ""


class Listener:
    """A supervised child. It tells `answers` from which sequence on it hears every request."""

    def __init__(
        self,
        jetstream: JetStream,
        listened: ListenedSubject,
        replies: ReplySender,
        *,
        unstored: UnstoredRequests,
        passing: PassingRequests[Any] | None = None,
        ahead: ReadAhead | None = None,
        infos: SharedInfo | None = None,
    ) -> None:
        self._jetstream = jetstream
        self._infos = infos if infos is not None else SharedInfo(jetstream)
        self._retry = RetryTimer(RETRY_FIRST_S, RETRY_MOST_S)
        self._stream = listened.stream
        self._subject = listened.subject
        self._replies = replies
        self._unstored = unstored
        # answers while the backlog is deep, one instance of the group for each request
        self._passing = passing
        self._queue = listened.queue
        self._ahead = (
            ahead  # finds requests that were stored before the passing copies are answered
        )
        self._is_on = False
        self._sids: list[int] = []  # of the subject, the one in use last
        self._created = ""  # which stream it is; empty: not known

    async def run(self) -> None:
        connection = self._jetstream.connection
        self._replies.start_listening_from(NOTHING_YET)
        self._is_on, self._sids = False, []
        others: list[int] = []
        try:
            self._sids.append(
                await connection.listen_direct(self._subject, self._replies.on_request)
            )
            on_answered = lambda _subject, _reply, data, _headers: self._replies.sent.on_answered(  # noqa: E731
                data
            )
            others.append(await connection.subscribe_direct(PASSING_REPLIES, on_answered))
            others.append(await connection.subscribe_direct(PASSING_ASKERS, self._replies.on_asker))
            identical = lambda _subject, _reply, data, _headers: self._replies.on_identical(data)  # noqa: E731
            others.append(await connection.subscribe_direct(IDENTICAL, identical))
            async with asyncio.TaskGroup() as tasks:
                await self._watch(BackgroundTasks(tasks))
        finally:
            if self._passing is not None:
                await self._passing.close()
            for sid in others:
                await connection.unsubscribe(sid, at_once=True)
            for sid in self._sids:
                await connection.unsubscribe(sid)

    async def _watch(self, tasks: BackgroundTasks) -> None:
        """Look on while the server is asked: under a flood its answer waits in the socket behind
        thousands of requests.
        """
        connection, ticks = self._jetstream.connection, 0
        while True:
            if not connection.is_connected:
                self._replies.start_listening_from(NOTHING_YET)
                self._created = ""
                self._unstored.reset()
            elif ticks % LEARN_TICKS == 0 or (not self._created and self._retry.is_due):
                tasks.start_once("learn", self._learn)
            self._replies.tick()
            if self._unstored.look(self._replies.storable):
                tasks.start_once("stored", self._look_for_stored)
            if self._passing is not None:
                self._passing.is_unstored = self._unstored.cause is not None
            if self._passing is not None and self._passing.look() != self._is_on:
                tasks.start_once("switch", partial(self._switch, self._passing, tasks))
            ticks += 1
            await asyncio.sleep(LISTENER_TICK_S)

    async def _switch(self, passing: PassingRequests[Any], tasks: BackgroundTasks) -> None:
        """Add the other subscription first: a request that both hear is answered once, one that
        neither hears gets no answer.
        """
        connection, old = self._jetstream.connection, self._sids[-1]
        is_on = passing.is_on
        if is_on:
            self._sids.append(
                await connection.subscribe_direct(
                    self._subject, passing.on_request, self._queue, passing.refusals.take
                )
            )
        else:
            self._sids.append(
                await connection.listen_direct(self._subject, self._replies.on_request)
            )
        self._is_on = is_on
        if is_on and self._ahead is not None:
            # the end of the old subscription may be confirmed late
            tasks.start_once("read ahead", partial(self._ahead.read, passing))
        await connection.flush_last(SWITCH_S)  # the server has read SUB
        await asyncio.sleep(OVERLAP_S)
        await connection.unsubscribe(old, within_s=SWITCH_S)
        self._sids.remove(old)
        passing.end_switch()

    async def _learn(self) -> None:
        self._retry.delay()
        try:
            if self._created and await self._is_same(MAX_AGE_S):
                self._retry.reset()
                return
            # the server knows our subscription when it answers this
            await self._jetstream.connection.flush()
            info = await self._infos.stream(self._stream)
        except (RouterError, nats.errors.Error, OSError):
            return
        if info is None:
            return
        self._retry.reset()
        if info["created"] == self._created:
            return
        # A stream that was made again while we listened counts from 1, and we heard all of it.
        self._replies.start_listening_from(0 if self._created else info["state"]["last_seq"])
        self._created = info["created"]

    async def _look_for_stored(self) -> None:
        try:
            info = await self._infos.stream(self._stream)
        except (RouterError, nats.errors.Error, OSError):
            return
        self._unstored.on_info(info)

    async def _is_same(self, max_age: float) -> bool:
        info = await self._infos.stream(self._stream, max_age)
        return info is not None and info["created"] == self._created
