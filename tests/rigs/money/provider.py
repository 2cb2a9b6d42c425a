"""The providers, honest and hostile: `python -m tests.rigs.money.provider URL KEYS LEDGER`. Each is
a user of the role author.

    good     answers, and tells what it costs; a stream has three pieces
    flaky    the first call of every third request fails with 503, the second one answers
    sly      answers, and tells a cost or usage that is a lie
    talker   a stream of words; the parameters say of which text, and whether it tells its usage or
             falls silent
    endless  a stream that ends when it is not heard any more

A prompt begins with the name of its request.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct, field
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from tests.rigs.money.ledger import Call, End, Ledger
from tests.rigs.money.prices import ENDLESS, FLAKY, FLAT, GOOD, SLY, TALKER
from tests.rigs.money.tokens import TEXTS, Piece, count_tokens, split_pieces
from tests.rigs.money.wire import Login, header

READY = "provider.ready"
Json = dict[str, Any]
COST = float(FLAT.per_request)
PAUSE_S = 0.003  # between two pieces

LIES: tuple[Json, ...] = (
    {"cost": 0},
    {"cost": 1e9},
    {"cost": -1},
    {},
    {"cost": 1e-12},
    {"cost": 0, "usage": {"prompt_tokens": -7, "completion_tokens": 10**15}},
    {"cost": 0, "usage": {"prompt_tokens": "many", "completion_tokens": True}},
    {"cost": float("nan")},
)


class Asked(Struct, frozen=True):
    """One call, which is in the ledger."""

    message: Msg
    call: Call
    prompt: str
    options: Json


class _Sent(Struct):
    """The pieces of one stream. `unheard`: numbers of those that had no listener any more, as the
    server said.
    """

    pieces: list[Piece] = field(default_factory=list)
    unheard: set[int] = field(default_factory=set)
    is_ended: bool = False

    async def on_unheard(self, message: Msg) -> None:
        self.unheard.add(int(message.subject.rpartition(".")[2]))

    @property
    def tokens(self) -> int:
        """Of what was heard."""
        return sum(
            piece.tokens for number, piece in enumerate(self.pieces) if number not in self.unheard
        )


class Providers(Struct):
    """Both users, and what the hostile one and the flaky one remember."""

    honest: Client
    hostile: Client
    ledger: Ledger
    seen: set[str] = field(default_factory=set)
    lies: int = 0
    streams: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self) -> None:
        answers: dict[str, tuple[Client, Callable[[Asked], Any]]] = {
            GOOD: (self.honest, self.answer),
            FLAKY: (self.honest, self.answer_second),
            SLY: (self.hostile, self.lie),
            TALKER: (self.honest, self.talk),
            ENDLESS: (self.hostile, self.talk_on),
        }
        for name, (client, answer) in answers.items():
            await client.subscribe(
                f"beamline.provider.{name}.v1", queue=name, cb=self._hear(answer)
            )
            await client.flush()

    def _hear(self, answer: Callable[[Asked], Any]) -> Callable[[Msg], Any]:
        async def hear(message: Msg) -> None:
            asked = self._note(message)
            if header(message, "Router-Stream") == "true":
                task = asyncio.create_task(answer(asked))
                self.streams.add(task)
                task.add_done_callback(self.streams.discard)
            else:
                await answer(asked)

        return hear

    def _note(self, message: Msg) -> Asked:
        """The call is in the ledger before anything is answered."""
        body = json.loads(message.data)
        name = str(body["prompt"]).partition("|")[0]
        is_stream = header(message, "Router-Stream") == "true"
        call = Call(uuid4().hex, body["tenant_id"], body["provider_id"], name, is_stream)
        self.ledger.write_call(call)
        return Asked(message, call, body["prompt"], (body.get("parameters") or {}).get("rig", {}))

    # -- whole answers

    async def answer(self, asked: Asked) -> None:
        if asked.call.is_stream:
            await self._stream_flat(asked)
            return
        await self._say(
            self.honest,
            asked,
            {"cost": COST, "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        )

    async def answer_second(self, asked: Asked) -> None:
        number = int(asked.call.name.rpartition("-")[2])
        if number % 3 == 0 and asked.call.name not in self.seen:
            self.seen.add(asked.call.name)
            headers = {"Nats-Service-Error-Code": "503", "Nats-Service-Error": "not now"}
            await self.honest.publish(asked.message.reply, b"", headers=headers)
            return
        await self._say(self.honest, asked, {"cost": COST})

    async def lie(self, asked: Asked) -> None:
        self.lies += 1
        await self._say(self.hostile, asked, LIES[self.lies % len(LIES)])

    async def _say(self, client: Client, asked: Asked, told: Json) -> None:
        body = {"provider_id": asked.call.provider, "output": "an answer", "metadata": {}, **told}
        await client.publish(asked.message.reply, json.dumps(body).encode())

    # -- streams

    async def _stream_flat(self, asked: Asked) -> None:
        for word in ("one ", "two ", "three "):
            await self._send(self.honest, asked, {"data": word, "done": False})
        await self._send(self.honest, asked, {"data": "", "done": True, "metadata": {"cost": COST}})

    async def talk(self, asked: Asked) -> None:
        """Words until its text is over, it is told to fall silent, or its listener has gone."""
        text = TEXTS[asked.options.get("text", "english")]
        pieces = split_pieces(text, asked.options.get("pieces", 30), asked.options.get("seed", 0))
        await self._talk(self.honest, asked, pieces, silent_after=asked.options.get("silent"))

    async def talk_on(self, asked: Asked) -> None:
        pieces = split_pieces(TEXTS["english"], 30, 1)
        await self._talk(
            self.hostile, asked, list(islice(cycle(pieces), 20_000)), silent_after=None
        )

    async def _talk(
        self, client: Client, asked: Asked, pieces: list[Piece], *, silent_after: int | None
    ) -> None:
        prompt, sent = count_tokens(asked.prompt), _Sent()
        inbox = client.new_inbox()
        ear = await client.subscribe(f"{inbox}.*", cb=sent.on_unheard)
        try:
            for number, piece in enumerate(pieces[:silent_after]):
                if sent.unheard:
                    return
                await self._send(
                    client, asked, {"data": piece.text, "done": False}, f"{inbox}.{number}"
                )
                sent.pieces.append(piece)
                await asyncio.sleep(asked.options.get("pause_s", PAUSE_S))
            if silent_after is None:
                await self._say_last(client, asked, prompt, sent)
        finally:
            if not sent.is_ended:
                await _flush(client)
                self._note_end(asked, prompt, sent, is_told=False)
            await ear.unsubscribe()

    async def _say_last(self, client: Client, asked: Asked, prompt: int, sent: _Sent) -> None:
        is_told = bool(asked.options.get("tells", True))
        await _flush(client)
        if sent.unheard:
            return
        self._note_end(asked, prompt, sent, is_told=is_told)
        usage = {"prompt_tokens": prompt, "completion_tokens": sent.tokens} if is_told else {}
        await self._send(client, asked, {"data": "", "done": True, "metadata": usage})

    def _note_end(self, asked: Asked, prompt: int, sent: _Sent, *, is_told: bool) -> None:
        sent.is_ended = True
        last = sent.pieces[-1].tokens if sent.pieces else 0
        self.ledger.write_end(End(asked.call.number, prompt, 0, sent.tokens, last, is_told))

    async def _send(self, client: Client, asked: Asked, chunk: Json, inbox: str = "") -> None:
        await client.publish(asked.message.reply, json.dumps(chunk).encode(), reply=inbox)


async def _flush(client: Client) -> None:
    """What the server says of the pieces before has come then; a server that is killed says
    nothing.
    """
    with suppress(Error, OSError, TimeoutError):
        await client.flush(5)


async def serve(login: Login, ledger: Ledger) -> None:
    """Until this process is killed."""
    honest, hostile = await login.connect("author.good"), await login.connect("author.sly")
    providers = Providers(honest, hostile, ledger)
    await providers.serve()
    print(json.dumps({"event": READY}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Login(sys.argv[1], sys.argv[2]), Ledger(Path(sys.argv[3]))))
