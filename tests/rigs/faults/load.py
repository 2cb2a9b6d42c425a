"""The clients: requests are asked at a steady rate, and asked again, the same bytes, until they are
answered.

Rule: docs/reference/contracts.md#one-answer.

Each has an inbox of its own, named in `Reply-To`, so that every answer is counted where it belongs:
the second one too. Of the requests some cannot be read, some ask for a job that no worker can do;
beside them results are told that are none. On a cluster some are single plain requests: they push
nothing and are asked once only. `overloaded` says "ask again"
(docs/reference/contracts.md#overloaded), so it is no answer to a request that is asked again.
"""

import asyncio
import contextlib
import sys
import time
from collections import Counter
from random import Random
from typing import Any

import nats.errors
import orjson
from msgspec import Struct, field
from nats.aio.msg import Msg

from router.config import Settings
from router.contracts.assignment import assignment_id_of
from router.contracts.usage import USAGE_SUBJECT as USAGE
from tests.rigs.faults.clients import Clients
from tests.rigs.faults.job import HEALTHY, HOPELESS

POISONED = "poisoned"
SINGLE = "single"  # a plain request that is asked once
OVERLOADED = "overloaded"
TENANTS = ("acme", "bolt", "corn")
ASK_AGAIN_S = 2.0
INBOX = "_INBOX.faults"


class Heard(Struct, frozen=True):
    """One answer, when it came (steady clock), and what it said."""

    at: float
    is_decision: bool
    code: str  # of an error, else empty
    said: str  # what a second answer must say, too: provider and policy, or the error
    is_whole: bool  # whether every extension ran


class Asked(Struct):
    """One request, from the client's side."""

    name: str
    kind: str  # HEALTHY, HOPELESS, POISONED, SINGLE
    tenant: str
    body: bytes
    sent_at: float
    asked_at: float  # the last time
    times: int = 1
    answers: list[Heard] = field(default_factory=list)

    @property
    def is_decided(self) -> bool:
        return bool(self.answers) and self.answers[0].is_decision

    @property
    def assignment_id(self) -> str:
        return assignment_id_of(self.tenant, self.name)


class Mix(Struct, frozen=True):
    """Shares of what is sent."""

    poisoned: float = 0.01  # of requests, and so many results beside them
    hopeless: float = 0.005
    single: float = 0.0


class Load:
    """Asks from `begin` to `end`; `quiet` when nothing waits for an answer or a receipt any more."""

    def __init__(
        self,
        clients: Clients,
        settings: Settings,
        *,
        rate: float,
        seed: int,
        mix: Mix | None = None,
        policy: str | None = None,
        in_flight: int | None = None,
        patience_s: float = ASK_AGAIN_S,
    ) -> None:
        """`rate`: requests a second; `in_flight` instead: so many unanswered at once. `patience_s`:
        until one is asked again.
        """
        self._clients = clients
        self._settings = settings
        self._rate = rate
        self._in_flight = in_flight
        self._patience_s = patience_s
        self._dice = Random(seed)
        self._mix = mix or Mix()
        self._policy = {"policy_id": policy} if policy is not None else {}
        self.asked: dict[str, Asked] = {}
        self.waiting: dict[str, Asked] = {}
        self.poisons: dict[str, bytes] = {}  # results by message id, once they are stored
        self.metered_at: list[float] = []
        # assignments, on a cluster; a copy may be heard that no leader has stored
        self.metered: set[str] = set()
        self._answers_by_connection: Counter[tuple[int, str]] = Counter()
        self._telling: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        await self._clients.subscribe(f"{INBOX}.*", self._hear)
        await self._clients.subscribe(USAGE, self._metered)
        self._tasks = [asyncio.create_task(self._ask()), asyncio.create_task(self._ask_again())]

    def end_asking(self) -> None:
        """Raises what ended the asking before its time."""
        for task in self._tasks:
            if task.done():
                task.result()
        self._tasks[0].cancel()

    @property
    def is_quiet(self) -> bool:
        return not self.waiting and not self._telling

    def is_well(self, within_s: float) -> bool:
        """Whether no request waits longer than so for its answer."""
        now = time.monotonic()
        return all(now - one.sent_at <= within_s for one in self.waiting.values())

    def list_decided(self, before_s: float) -> list[str]:
        """The assignments of healthy jobs that were decided so long ago: each has a usage event by
        now.
        """
        until = time.monotonic() - before_s
        decided = [one for one in self.asked.values() if one.kind == HEALTHY and one.is_decided]
        return [one.assignment_id for one in decided if one.answers[0].at <= until]

    async def close(self) -> None:
        for task in (*self._tasks, *self._telling):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._telling, return_exceptions=True)

    # -- asking

    async def _ask(self) -> None:
        began, number = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * self._rate)
            if self._in_flight is not None:
                due = number + self._in_flight - len(self.waiting)
            while number < due:
                number += 1
                await self._send(self._next(number))
                if self._dice.random() < self._mix.poisoned:
                    self._tell(self._poison(number), f"poison-{number}")
            await asyncio.sleep(0.01 if self._in_flight is None else 0.001)

    def _next(self, number: int) -> Asked:
        draw, tenant = self._dice.random(), self._dice.choice(TENANTS)
        kind, now = self._kind(draw), time.monotonic()
        return Asked(f"f-{number}", kind, tenant, self._body(number, kind, tenant), now, now)

    def _kind(self, draw: float) -> str:
        """By the shares of the mix; `draw` is from 0 to 1."""
        for kind, share in (
            (POISONED, self._mix.poisoned),
            (HOPELESS, self._mix.hopeless),
            (SINGLE, self._mix.single),
        ):
            if draw < share:
                return kind
            draw -= share
        return HEALTHY

    def _body(self, number: int, kind: str, tenant: str) -> bytes:
        if kind == POISONED:
            return self._dice.choice(
                (
                    b"not a request %d" % number,
                    b'{"message":{"message_type":"chat","payload":%d}}' % number,
                )
            )
        task = {"type": HEALTHY if kind == SINGLE else kind, "payload": f"  number {number} "}
        push = {} if kind == SINGLE else {"push_assignment": True}
        return orjson.dumps(
            {"tenant_id": tenant, "request_id": f"f-{number}", "task": task, **push, **self._policy}
        )

    async def _send(self, asked: Asked) -> None:
        self.asked[asked.name] = asked
        if asked.kind != SINGLE:
            self.waiting[asked.name] = asked
        await self._publish(asked)

    async def _ask_again(self) -> None:
        while True:
            await asyncio.sleep(ASK_AGAIN_S / 4)
            now = time.monotonic()
            for asked in [
                one for one in self.waiting.values() if now - one.asked_at >= self._patience_s
            ]:
                asked.asked_at, asked.times = now, asked.times + 1
                await self._publish(asked)

    async def _publish(self, asked: Asked) -> None:
        inbox = f"{INBOX}.{asked.name}"
        # its buffer is full while the server is away: asked again
        with contextlib.suppress(nats.errors.Error):
            headers = {"Nats-Msg-Id": asked.name, "Reply-To": inbox}
            await self._clients.current.publish(
                self._settings.decide.subject, asked.body, reply=inbox, headers=headers
            )

    # -- results that are none

    def _poison(self, number: int) -> bytes:
        choices = [
            b"not a result %d" % number,
            orjson.dumps({"assignment_id": f"a-{number}", "cost": 1}),
        ]
        done = [
            asked
            for asked in list(self.asked.values())[-200:-100]
            if asked.is_decided and asked.kind != SINGLE
        ]
        if done:  # forged: it names an assignment of another tenant
            known = self._dice.choice(done)
            told = {
                "status": "success",
                "provider_id": "openai",
                "job": {"type": "chat"},
                "latency_ms": 1,
                "cost": 1,
            }
            choices.append(
                orjson.dumps(
                    {"assignment_id": known.assignment_id, "tenant_id": "evil", "n": number, **told}
                )
            )
        return self._dice.choice(choices)

    def _tell(self, body: bytes, name: str) -> None:
        task = asyncio.create_task(self._stored(body, name))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _stored(self, body: bytes, name: str) -> None:
        while name not in self.poisons:
            with contextlib.suppress(nats.errors.Error):
                js = self._clients.current.jetstream()
                await js.publish(
                    self._settings.results.subject,
                    body,
                    headers={"Nats-Msg-Id": name},
                    timeout=ASK_AGAIN_S,
                )
                self.poisons[name] = body
                return
            await asyncio.sleep(ASK_AGAIN_S / 4)

    # -- hearing

    async def _hear(self, connection: int, message: Msg) -> None:
        name = message.subject.rpartition(".")[2]
        asked, answer = self.asked[name], _heard(orjson.loads(message.data))
        if (answer.code == OVERLOADED and asked.kind != SINGLE) or self._is_copy(
            connection, asked, answer
        ):
            return
        asked.answers.append(answer)
        if self.waiting.pop(name, None) is not None and asked.kind != POISONED:
            # the body is not sent again, and bodies of so many requests would fill the memory
            asked.body = b""

    def _is_copy(self, connection: int, asked: Asked, answer: Heard) -> bool:
        """Whether another connection brought this answer before: an answer comes once through each."""
        if len(self._clients) == 1:
            return False
        self._answers_by_connection[connection, asked.name] += 1
        is_counted = self._answers_by_connection[connection, asked.name] <= len(asked.answers)
        return is_counted and answer.said == asked.answers[0].said

    async def _metered(self, connection: int, message: Msg) -> None:
        self.metered_at.append(time.monotonic())
        if len(self._clients) > 1:
            self.metered.add(str(orjson.loads(message.data)["assignment_id"]))


def _heard(answer: dict[str, Any]) -> Heard:
    now = time.monotonic()
    if not answer["ok"]:
        code = str(answer["error"]["code"])
        return Heard(now, False, code, code, False)
    decision = answer["decision"]
    ran = orjson.loads(decision["metadata"].get("executed_extensions", "[]"))
    said = (
        f"{decision['provider_id']} by {decision['metadata']['policy_id']} "
        f"{decision['metadata']['policy_version']}"
    )
    return Heard(
        now, True, "", sys.intern(said), bool(ran) and all(one["status"] == "ok" for one in ran)
    )
