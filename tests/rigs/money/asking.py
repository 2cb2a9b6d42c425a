"""What clients ask: a decision with an assignment, an invocation, a stream; again until there is an
answer, as a careful client does.

The names of requests that failed, or had no answer, are kept: only such a request may have an
attempt that was recorded and never made.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from msgspec import Struct, field
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from tests.rigs.money.torn import TornReader

Json = dict[str, Any]

DECIDE = "beamline.router.v1.decide"
INVOKE = "beamline.provider.v1.invoke"
STREAM = f"{INVOKE}.stream"
PATIENCE_S = 6.0
STREAM_PATIENCE_S = 12.0  # for the next piece
STREAM_MS = 20_000  # a whole stream
TRIES = 30
AGAIN_S = 0.3
DECIDED, NO_ANSWER, NO_ROUTER = "decided", "no answer", "no router"
LEFT = "left"
NOT_NOW = (
    NO_ANSWER,
    NO_ROUTER,
    "overloaded",
    "internal",
    "extension_unavailable",
    "extension_timeout",
    "deadline_exceeded",
)


class Asker(Struct):
    """One gateway. `failed`: names of requests of which a try failed; `answers`: how often which
    answer came.
    """

    client: Client
    failed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # streams that fell silent
    left: set[str] = field(default_factory=set)  # streams that it did not read to their end
    answers: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    async def push(self, tenant: str, name: str, *, policy: str = "default") -> str:
        """The code of the answer to a request with an assignment."""
        message = {"message_id": name, "message_type": "chat", "payload": f"{name}|please"}
        asked = {
            "version": "1",
            "request_id": name,
            "tenant_id": tenant,
            "policy_id": policy,
            "message": message,
        }
        return await self._until_answered(DECIDE, {**asked, "push_assignment": True}, name)

    async def invoke(
        self,
        tenant: str,
        name: str,
        provider: str,
        *,
        body: str = "",
        tries: int = TRIES,
        **more: Any,
    ) -> str:
        """The code of the answer to an invocation."""
        asked = {
            "provider_id": provider,
            "tenant_id": tenant,
            "message_id": name,
            "body": f"{name}|{body}",
            **more,
        }
        return await self._until_answered(INVOKE, asked, name, tries=tries)

    async def _until_answered(
        self, subject: str, body: Json, name: str, *, tries: int = TRIES
    ) -> str:
        self.asked += 1
        code = NO_ANSWER
        for _ in range(tries):
            code = await self._ask(subject, body)
            if code != DECIDED:
                self.failed.add(name)
            if code not in NOT_NOW:
                break
            await asyncio.sleep(AGAIN_S)
        self.answers[code] += 1
        return code

    async def _ask(self, subject: str, body: Json) -> str:
        headers = {"Router-Deadline-Ms": str(int(PATIENCE_S * 1000))}
        try:
            answer = await self.client.request(
                subject, json.dumps(body).encode(), timeout=PATIENCE_S, headers=headers
            )
        except Error:
            return NO_ANSWER
        return _code_of(answer)

    async def stream(
        self,
        tenant: str,
        name: str,
        provider: str,
        *,
        body: str = "",
        options: Json | None = None,
        leave_after: int | None = None,
        longest_ms: int = STREAM_MS,
        torn: TornReader | None = None,
    ) -> str:
        """How a stream ended: read to its end, or left after so many pieces. `options`: for the
        stand-in.

        `torn`: the reader of its own, whose connection is torn then; without it the reader
        unsubscribes.

        It is asked for again where no router heard it, and never where one may have.
        """
        self.asked += 1
        given = {"parameters": {"rig": options or {}}}
        asked = {
            "provider_id": provider,
            "tenant_id": tenant,
            "message_id": name,
            "body": f"{name}|{body}",
            **given,
        }
        code = NO_ROUTER
        for _ in range(TRIES):
            code = await self._stream(json.dumps(asked).encode(), leave_after, longest_ms, torn)
            if code != NO_ROUTER:
                break
            self.failed.add(name)
            await asyncio.sleep(AGAIN_S)
        self._note_stream(name, code)
        return code

    async def _stream(
        self, body: bytes, leave_after: int | None, longest_ms: int, torn: TornReader | None
    ) -> str:
        client = self.client if torn is None else torn.client
        inbox = client.new_inbox()
        ear = await client.subscribe(inbox)
        await client.publish(
            STREAM, body, reply=inbox, headers={"Router-Deadline-Ms": str(longest_ms)}
        )
        code = await self._read(ear, leave_after)
        if code == LEFT and torn is not None:
            await torn.tear()
        else:
            await ear.unsubscribe()
        return code

    def _note_stream(self, name: str, code: str) -> None:
        if code != DECIDED:
            self.failed.add(name)
        if code in (NO_ANSWER, LEFT):
            (self.lost if code == NO_ANSWER else self.left).add(name)
        self.answers[code] += 1

    async def _read(self, ear: Any, leave_after: int | None) -> str:
        heard = 0
        while leave_after is None or heard < leave_after:
            try:
                message = await ear.next_msg(timeout=STREAM_PATIENCE_S)
            except (TimeoutError, Error):
                return NO_ANSWER
            heard += 1
            if not message.data:
                return NO_ANSWER if heard > 1 else NO_ROUTER
            chunk = json.loads(message.data)
            if chunk.get("done"):
                metadata = chunk.get("metadata", {})
                return (
                    DECIDED
                    if metadata.get("status", "success") == "success"
                    else str(metadata.get("error_code"))
                )
        return LEFT


def _code_of(answer: Msg) -> str:
    if not answer.data:
        return NO_ROUTER
    said = json.loads(answer.data)
    if said.get("ok") is True or said.get("status") == "success":
        return DECIDED
    return str(
        said.get("error_code") or (said.get("error") or {}).get("code") or said.get("status")
    )
