"""Sends one request to every instance of a router, and counts the instances that did not answer; or
takes the first good answer; or sends it to the instance that is free.

The request goes to a subject that each instance receives. The service protocol's PING goes with it:
every instance answers a PING at once, so the caller knows how many answers to expect. It stops
waiting when it has them all, or when the timeout is over. The server itself answers the PING where
there is no instance: before any answer to it, silence only says that the instances are slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import nats.errors
import orjson
from nats.aio.msg import Msg
from pydantic import SecretStr

from router.core.errors import NoRouter, Poison, Unanswered
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import Headers
from router.operate.admin.request_guard import API_KEY, PROOF, Proofs
from router.operate.admin.service import Answer

PING = "$SRV.PING.router-admin"
# without a new answer for this long after the first, every instance has answered the PING
QUIET_S = 0.3
POLL_S = 0.01


class InstanceAnswers:
    """The answers to one request, and the number of instances, which is that of the answers to the
    PING.
    """

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.instances = 0
        self.is_ping_answered = False  # by an instance, or by the server, which knows of none

    @property
    def successful(self) -> list[dict[str, Any]]:
        return [answer for answer in self.answers if answer.get("ok") is True]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [answer["error"] for answer in self.answers if isinstance(answer.get("error"), dict)]

    @property
    def missing(self) -> int:
        return max(0, self.instances - len(self.answers))

    def on_answer(
        self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None
    ) -> None:
        """Take one answer. The server's own message "no responders" has no body, and is left out."""
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if isinstance(answer, dict):
            self.answers.append(answer)

    def on_ping(
        self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None
    ) -> None:
        self.is_ping_answered = True
        self.instances += bool(data)


async def request_from_all(
    connection: Connection,
    api_key: SecretStr | None,
    subject: str,
    fields: Mapping[str, object],
    timeout_s: float,
) -> InstanceAnswers:
    """Return the answers that come within `timeout_s` seconds, perhaps none. Raises Poison if the
    request is too large.
    """
    request, answers = orjson.dumps(fields), InstanceAnswers()
    head = head_of(list_key_headers(api_key))
    # the server would close the connection for it
    if len(request) + len(head) > connection.max_payload:
        raise Poison(
            f"the request is larger than the {connection.max_payload} bytes that the server takes"
        )
    inboxes = connection.new_inbox(), connection.new_inbox()
    sids = [
        await connection.subscribe_direct(inbox, on_message)
        for inbox, on_message in zip(inboxes, (answers.on_answer, answers.on_ping), strict=True)
    ]
    try:
        connection.publish_nowait(subject, request, inboxes[0], head)
        connection.publish_nowait(PING, reply=inboxes[1])
        await connection.require_permission(subject)
        await _wait_for_answers(
            answers, timeout_s, is_ping_denied=connection.denials.find(PING) is not None
        )
    finally:
        for sid in sids:
            await connection.unsubscribe(sid)
    return answers


def list_key_headers(api_key: SecretStr | None) -> Mapping[str, str]:
    """The header that operators' services ask for; none without a key."""
    return {API_KEY: api_key.get_secret_value()} if api_key is not None else {}


async def request_one(
    connection: Connection,
    subject: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float = 5.0,
    is_router: bool = False,
) -> Msg:
    """Return the first answer. Raises Unanswered; NoRouter if nothing listens on the subject of a
    router's service.
    """
    try:
        return await connection.request(
            subject, body, timeout=timeout_s, headers=dict(headers) or None
        )
    except nats.errors.NoRespondersError:
        raise (
            NoRouter(f"no router listens on {subject}")
            if is_router
            else Unanswered(f"no service listens on {subject}")
        ) from None
    except (nats.errors.Error, TimeoutError):
        raise Unanswered(f"{subject} did not answer within {timeout_s:g} s") from None


async def _wait_for_answers(
    answers: InstanceAnswers, timeout_s: float, *, is_ping_denied: bool
) -> None:
    """Wait until every instance has answered, at most `timeout_s` seconds.

    A caller that may not send the PING cannot count the instances: it waits until no further answer
    has come for QUIET_S.
    """
    now = asyncio.get_running_loop().time
    until, quiet_from, before = now() + timeout_s, now(), (0, 0)
    while now() < until:
        await asyncio.sleep(POLL_S)
        if (counts := (len(answers.answers), answers.instances)) != before:
            before, quiet_from = counts, now()
        has_heard = answers.is_ping_answered or (is_ping_denied and bool(answers.answers))
        if has_heard and now() - quiet_from >= QUIET_S and not answers.missing:
            return


# -- Sends a request to all instances at once: returns the first good answer, or all of them. No
# answer counts as "not found".


MAX_PEER_ANSWERS = 256  # instances whose answers are read


class Peers:
    """The instances that serve a subject, including this one. `within_s`: how long they may take.

    `proofs`: if there is an api_key. The key itself is never sent, because every subscriber of the
    subject would receive it.
    """

    def __init__(
        self, connection: Connection, proofs: Proofs | None, within_s: float = 0.25
    ) -> None:
        self._connection = connection
        self._proofs = proofs
        self._within_s = within_s

    async def ask_first(self, subject: str, asked: Mapping[str, object]) -> Answer | None:
        """The first answer that is ok; None when there was none in time."""
        first: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def keep(answer: Mapping[str, Any]) -> None:
            if not first.done():
                first.set_result(answer)

        await self._ask(subject, asked, keep, first)
        return first.result() if first.done() else None

    async def ask_all(self, subject: str, asked: Mapping[str, object]) -> list[Mapping[str, Any]]:
        """All answers that are ok, at most MAX_PEER_ANSWERS. It waits the whole time, because the
        number of instances is not known.
        """
        answers: list[Mapping[str, Any]] = []
        full: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def keep(answer: Mapping[str, Any]) -> None:
            if len(answers) < MAX_PEER_ANSWERS:
                answers.append(answer)

        await self._ask(subject, asked, keep, full)
        return answers

    async def _ask(
        self,
        subject: str,
        asked: Mapping[str, object],
        keep: Callable[[Mapping[str, Any]], None],
        until: asyncio.Future[Any],
    ) -> None:
        """Call `keep` with each answer that is ok, until the time is over or `until` is done."""

        def hear(_subject: str, _reply: str, data: bytes, _headers: Headers | None) -> None:
            answer = _read(data)
            if answer.get("ok") is True:
                keep(answer)

        inbox, question = self._connection.new_inbox(), orjson.dumps(asked)
        head = (
            head_of({PROOF: self._proofs.make(subject, inbox, question)})
            if self._proofs is not None
            else b""
        )
        sid = await self._connection.subscribe_direct(inbox, hear)
        try:
            self._connection.publish_nowait(subject, question, inbox, head)
            await asyncio.wait({until}, timeout=self._within_s)
        finally:
            await self._connection.unsubscribe(sid)


def _read(data: bytes) -> Mapping[str, Any]:
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) else {}
