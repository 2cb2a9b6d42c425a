"""Asking every instance of a router at once, and knowing who did not answer.

The service protocol's PING goes out beside the question: it tells how many there are, at once. So the wait ends as soon as
everybody has answered, and an instance that is too slow is missed, not forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from router.cli import ends

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.connection import Connection

PING = "$SRV.PING.router-admin"
QUIET_S = 0.3  # nobody new within this time: everybody is known
TICK_S = 0.01


class Heard:
    """The answers, and how many instances there are."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.instances = 0

    @property
    def good(self) -> list[dict[str, Any]]:
        return [answer for answer in self.answers if answer.get("ok") is True]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [answer["error"] for answer in self.answers if isinstance(answer.get("error"), dict)]

    @property
    def missing(self) -> int:
        return max(0, self.instances - len(self.answers))

    def hear(self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        """An answer; the server's own word that nobody listens has no body."""
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if isinstance(answer, dict):
            self.answers.append(answer)

    def count(self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        self.instances += bool(data)


async def ask_everyone(connection: Connection, subject: str, asked: Mapping[str, object], settings: Settings, timeout_s: float) -> Heard:
    """What every instance says of `asked` within `timeout_s`; nobody at all is no error here. Poison: the question is too large."""
    from router.admin.door import API_KEY
    from router.delivery.connection import head_of
    from router.errors import Poison

    question, heard, key = orjson.dumps(asked), Heard(), settings.admin.api_key
    head = head_of({API_KEY: key.get_secret_value()} if key is not None else {})
    if len(question) + len(head) > connection.max_payload:  # the server would close the connection for it
        raise Poison(f"the question is larger than the {connection.max_payload} bytes that the server takes")
    inboxes = connection.new_inbox(), connection.new_inbox()
    sids = [await connection.subscribe_direct(inbox, hear) for inbox, hear in zip(inboxes, (heard.hear, heard.count), strict=True)]
    try:
        connection.publish_nowait(subject, question, inboxes[0], head)
        connection.publish_nowait(PING, reply=inboxes[1])
        await connection.require_permission(subject)
        await _wait(heard, timeout_s)
    finally:
        for sid in sids:
            await connection.unsubscribe(sid)
    return heard


def complain_of(heard: Heard) -> int:
    """Why there is nothing to show, on standard error; the exit status."""
    if not heard.answers:
        ends.complain("no router answered: is one running here, with admin.enabled?")
        return ends.SILENT
    for text in dict.fromkeys(map(reason_of, heard.errors)):
        ends.complain(text)
    if heard.missing:
        ends.complain(f"{heard.missing} of {heard.instances} instances did not answer in time: --timeout gives them longer")
    return ends.NO


def reason_of(error: Mapping[str, Any]) -> str:
    """A service's error as a line, with what to do where that is not the router's to say."""
    hint = ": give it as the setting admin.api_key (ROUTER_ADMIN__API_KEY)" if error.get("code") == "unauthorized" else ""
    return f"{error.get('code')}: {error.get('message')}{hint}"


async def _wait(heard: Heard, timeout_s: float) -> None:
    now = asyncio.get_running_loop().time
    until, quiet_from, known = now() + timeout_s, now(), (0, 0)
    while now() < until:
        await asyncio.sleep(TICK_S)
        if (found := (len(heard.answers), heard.instances)) != known:
            known, quiet_from = found, now()
        if now() - quiet_from >= QUIET_S and not heard.missing:
            return
