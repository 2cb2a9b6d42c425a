"""JetStream's API as JSON. (nats-py's dataclasses drop fields that they do not know.)

An error of the server raises BrokerRefused with its number, a missing JetStream NoJetStream, a
subject that this user may not use PermissionDenied, and no answer BrokerUnavailable. No caller
decides by the text of an error.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import nats.errors
import orjson
from msgspec import Struct

from router.core.errors import (
    BrokerRefused,
    BrokerUnavailable,
    NoJetStream,
    NoLeader,
    RouterError,
    StorageRefused,
)
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import parse_head

Json = dict[str, Any]

STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = 10148  # created with other settings than these
MESSAGE_NOT_FOUND = 10037
# an earlier message with this id is neither stored nor refused: its leader waits for its followers
IN_PROCESS = 10158
# the subject has another last sequence; or, as yet, another write to it is under way
WRONG_LAST_SEQUENCE, WRITE_IN_PROCESS = 10071, 10164
LAST_SEQUENCE_DIFFERS = frozenset({WRONG_LAST_SEQUENCE, WRITE_IN_PROCESS})

_OFF = frozenset({10039, 10076})  # not enabled for this account, or on this server

# the cluster, the stream or the consumer has no leader now
_WITHOUT_LEADER = frozenset({10008, 10009, 10118, 10119})

PLAIN_API = "$JS.API"  # without a domain

ASK_AGAIN_S = 0.5  # an info that was asked for while there was no leader is never answered
EXPLAIN_S = 1.0  # for the cause of an error that is known already

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StoredMessage(Struct, frozen=True):
    """A message in a stream; `time` is the server's RFC 3339 text."""

    subject: str
    sequence: int
    data: bytes
    headers: dict[str, str]
    time: str


class JetStream:
    """Requests to `$JS.API` (or `$JS.{domain}.API`) over one connection."""

    def __init__(
        self, connection: Connection, domain: str | None = None, timeout_s: float = 5.0
    ) -> None:
        self.connection = connection
        self.prefix = f"$JS.{domain}.API" if domain else PLAIN_API
        self._timeout_s = timeout_s

    @property
    def is_in_other_domain(self) -> bool:
        """Whether it is asked by the name of its domain, so that a leaf node may lie between."""
        return self.prefix != PLAIN_API

    async def ask(
        self, what: str, body: Json | None = None, *, timeout_s: float | None = None
    ) -> Json:
        """Send one API request and return its answer; raises BrokerRefused with the server's
        number, or BrokerUnavailable.

        `timeout_s`: another than that of all requests, for one that the server answers after long
        work.
        """
        return await self._request(
            f"{self.prefix}.{what}",
            orjson.dumps(body) if body is not None else b"",
            timeout_s=timeout_s,
        )

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Json:
        """Store one message and wait for its publish ack; raises as `ask` does. `AckedPublisher` is
        for many at once.
        """
        return await self._request(subject, data, headers)

    async def _request(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        within_s = timeout_s or self._timeout_s
        try:
            reply = await self.connection.request(
                subject, data, timeout=within_s, headers=dict(headers) if headers else None
            )
            answer = orjson.loads(reply.data)
        except orjson.JSONDecodeError as exc:
            raise BrokerUnavailable(f"{subject}: the answer is not JSON") from exc
        except nats.errors.NoRespondersError as exc:
            raise await self._explain_no_responders(subject) from exc
        except TimeoutError as exc:
            raise NoLeader(f"no answer on {subject} within {within_s:g} s: {_NO_LEADER}") from exc
        except (nats.errors.Error, OSError) as exc:
            raise BrokerUnavailable(f"no answer on {subject}: {type(exc).__name__}") from exc
        if error := answer.get("error"):
            if error.get("err_code") in _OFF:
                raise NoJetStream(f"JetStream is not enabled for this account: {_TURN_ON}")
            if error.get("err_code") in _WITHOUT_LEADER:
                raise NoLeader(
                    f"no answer on {subject}: {_NO_LEADER} ({error.get('description', '')})"
                )
            if error.get("err_code") == IN_PROCESS:
                raise BrokerUnavailable(
                    f"{subject}: an earlier copy is neither stored nor refused yet"
                )
            raise BrokerRefused(
                error.get("err_code", 0), error.get("description", ""), error.get("code", 0)
            )
        return answer  # type: ignore[no-any-return]

    async def _explain_no_responders(self, subject: str) -> BrokerUnavailable:
        """No responders: tell whether JetStream or the stream is missing."""
        if not subject.startswith(f"{self.prefix}."):
            try:
                async with asyncio.timeout(EXPLAIN_S):
                    await self.account()
            except NoJetStream as exc:
                return exc
            except (NoLeader, TimeoutError):
                return NoLeader(f"no stream takes {subject}: the cluster has no leader")
            except (BrokerUnavailable, BrokerRefused):
                # this user may not ask: all that is known is the subject
                pass
            if await self.is_bound(subject) is False:
                return StorageRefused(
                    f"no stream takes {subject}: it is missing, or lacks the subject: {_MAKE_ONE}"
                )
            return BrokerUnavailable(
                f"no stream takes {subject}: it has no leader now, or is missing: {_MAKE_ONE}"
            )
        if self.prefix == PLAIN_API:
            return NoJetStream(f"JetStream does not run on this server: {_TURN_ON}")
        return NoJetStream(
            f"no server of the domain answers ({self.prefix} is asked: nats.js_domain): "
            f"{_LOOK_AT_DOMAIN}"
        )

    async def is_bound(self, subject: str) -> bool | None:
        """Whether a stream takes the subject, be it without a leader now; None: that cannot be
        told.
        """
        try:
            async with asyncio.timeout(EXPLAIN_S):
                names = await self.ask(
                    "STREAM.NAMES", {"subject": subject.removeprefix(f"{self.prefix}.")}
                )
        except (RouterError, TimeoutError):
            return None
        return bool(names.get("streams"))

    def write_subject(self, subject: str) -> str:
        """Where an entry of a bucket is published: in another domain a leaf node lets it pass under
        the API's prefix alone.

        https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-8.md
        """
        return subject if self.prefix == PLAIN_API else f"{self.prefix}.{subject}"

    async def account(self) -> Json:
        return await self.ask("INFO")

    async def stream(self, name: str) -> Json | None:
        """A stream's info, or None when there is none."""
        return await self._request_or_none(f"STREAM.INFO.{name}", STREAM_NOT_FOUND)

    async def consumer(self, stream: str, durable: str) -> Json | None:
        """A consumer's info, or None when it or its stream is missing."""
        return await self._request_or_none(
            f"CONSUMER.INFO.{stream}.{durable}", CONSUMER_NOT_FOUND, STREAM_NOT_FOUND
        )

    async def message(self, stream: str, sequence: int) -> StoredMessage | None:
        """The message at a sequence, or None when it is deleted or never was."""
        return await self._message(stream, {"seq": sequence})

    async def get_last(self, stream: str, subject: str) -> StoredMessage | None:
        """The newest message on a subject."""
        return await self._message(stream, {"last_by_subj": subject})

    async def get_next(self, stream: str, subject: str, sequence: int) -> StoredMessage | None:
        """The first message on a subject (wildcards allowed) at or after a sequence."""
        return await self._message(stream, {"seq": sequence, "next_by_subj": subject})

    async def _message(self, stream: str, query: Json) -> StoredMessage | None:
        try:
            return await self.get(stream, query)
        except BrokerRefused as exc:
            if exc.err_code == STREAM_NOT_FOUND:
                return None
            raise

    async def get(self, stream: str, query: Json) -> StoredMessage | None:
        """STREAM.MSG.GET. Unlike the others it tells a missing stream (BrokerRefused) from a
        missing message.
        """
        try:
            stored = (await self.ask_repeatedly(f"STREAM.MSG.GET.{stream}", query))["message"]
        except BrokerRefused as exc:
            if exc.err_code == MESSAGE_NOT_FOUND:
                return None
            raise
        headers = parse_head(base64.b64decode(stored["hdrs"])) if stored.get("hdrs") else None
        data = base64.b64decode(stored.get("data", ""))
        return StoredMessage(stored["subject"], stored["seq"], data, headers or {}, stored["time"])

    async def _request_or_none(self, what: str, *missing: int) -> Json | None:
        try:
            return await self.ask_repeatedly(what)
        except BrokerRefused as exc:
            if exc.err_code in missing:
                return None
            raise

    async def ask_repeatedly(self, what: str, body: Json | None = None) -> Json:
        """Ask what may be asked twice, such as an info, at short intervals until the first answer:
        it comes soon after an election.
        """
        until = asyncio.get_running_loop().time() + self._timeout_s
        asking: set[asyncio.Task[Json]] = set()
        try:
            while True:
                asking.add(asyncio.create_task(self.ask(what, body)))
                is_last = asyncio.get_running_loop().time() + ASK_AGAIN_S > until
                done, _ = await asyncio.wait(
                    asking,
                    timeout=None if is_last else ASK_AGAIN_S,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if done:
                    return done.pop().result()
        finally:
            for task in asking:
                task.cancel()


_NO_LEADER = "the cluster has no leader for it, or no quorum"
_MAKE_ONE = "`router topology apply` makes the router's, an agent makes its own when it starts"
_LOOK_AT_DOMAIN = (
    "is it called so, does JetStream run there, and is a leaf node on the way connected to it "
    "(`/leafz`)?"
)
_TURN_ON = (
    "add `jetstream {}` to the server's configuration, and `jetstream: enabled` to the account"
)


def nanos(time: str) -> int:
    """A server's RFC 3339 text as nanoseconds since the epoch; `datetime` stops at microseconds."""
    whole, _, fraction = time.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(f"{whole}+00:00") - _EPOCH
    return int(seconds.total_seconds()) * 1_000_000_000 + int(f"{fraction:0<9}"[:9])
