"""Send one request to every instance of a router, and count the instances that did not answer.

The request goes to a subject that each instance receives. The command sends the service protocol's PING with it: every instance answers
a PING at once, so the command knows how many answers to expect. It stops to wait when it has them all, or when the timeout is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from router.cli import exit_codes
from router.core.errors import NoRouter

if TYPE_CHECKING:
    from router.cli.session import CommandSession

PING = "$SRV.PING.router-admin"
QUIET_S = 0.3  # without a new answer for this long, every instance has answered the PING
POLL_S = 0.01


class InstanceAnswers:
    """The answers to one request, and the number of instances, which is that of the answers to the PING."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.instances = 0

    @property
    def successful(self) -> list[dict[str, Any]]:
        return [answer for answer in self.answers if answer.get("ok") is True]

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [answer["error"] for answer in self.answers if isinstance(answer.get("error"), dict)]

    @property
    def missing(self) -> int:
        return max(0, self.instances - len(self.answers))

    def on_answer(self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        """Take one answer. The server's own message "no responders" has no body, and is left out."""
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if isinstance(answer, dict):
            self.answers.append(answer)

    def on_ping(self, _subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        self.instances += bool(data)


async def request_from_all(session: CommandSession, subject: str, fields: Mapping[str, object], timeout_s: float) -> InstanceAnswers:
    """Return the answers that come within `timeout_s`, perhaps none. Raises Poison if the request is too large."""
    from router.core.errors import Poison
    from router.delivery.connection import head_of
    from router.operations.admin.request_guard import API_KEY

    request, answers, key = orjson.dumps(fields), InstanceAnswers(), session.settings.admin.api_key
    connection = (await session.open_jetstream()).connection
    head = head_of({API_KEY: key.get_secret_value()} if key is not None else {})
    if len(request) + len(head) > connection.max_payload:  # the server would close the connection for it
        raise Poison(f"the request is larger than the {connection.max_payload} bytes that the server takes")
    inboxes = connection.new_inbox(), connection.new_inbox()
    sids = [
        await connection.subscribe_direct(inbox, take) for inbox, take in zip(inboxes, (answers.on_answer, answers.on_ping), strict=True)
    ]
    try:
        connection.publish_nowait(subject, request, inboxes[0], head)
        connection.publish_nowait(PING, reply=inboxes[1])
        await connection.require_permission(subject)
        await _wait_for_answers(answers, timeout_s)
    finally:
        for sid in sids:
            await connection.unsubscribe(sid)
    return answers


def report_failure(answers: InstanceAnswers) -> int:
    """Print on standard error why no answer can be used; return the exit status. Raises NoRouter if no instance answered."""
    if not answers.answers:
        raise NoRouter("no router answered: is one running here, with admin.enabled?")
    for text in dict.fromkeys(map(describe_error, answers.errors)):
        exit_codes.complain(text)
    if answers.missing:
        exit_codes.complain(f"{answers.missing} of {answers.instances} instances did not answer in time: --timeout gives them longer")
    return exit_codes.NO


def describe_error(error: Mapping[str, Any]) -> str:
    """Write a service's error as one line, with a hint if the operator can solve it."""
    hint = ": give it as the setting admin.api_key (ROUTER_ADMIN__API_KEY)" if error.get("code") == "unauthorized" else ""
    return f"{error.get('code')}: {error.get('message')}{hint}"


async def _wait_for_answers(answers: InstanceAnswers, timeout_s: float) -> None:
    now = asyncio.get_running_loop().time
    until, quiet_from, before = now() + timeout_s, now(), (0, 0)
    while now() < until:
        await asyncio.sleep(POLL_S)
        if (counts := (len(answers.answers), answers.instances)) != before:
            before, quiet_from = counts, now()
        if now() - quiet_from >= QUIET_S and not answers.missing:
            return
