"""The sending end of streams: pieces go to an inbox until the last one, or until no reader listens
there.

Core NATS does not say that a subscriber went away. But a message with a reply subject that finds no
subscriber is answered by the server, on that reply subject, with 503. So every piece names one, and
the first piece after the reader left (or died) ends the stream. A reader may also say so itself:
whatever arrives there means "no more".

    piece ── to: the reader's inbox ── reply: {ours}.{token} ──> the reader listens: no reply
                                                                 no reader:          503 on {ours}.{token} ──> on_reader_gone()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from router.core.ids import random_tokens
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frame_parser import Headers


class ReplyStreams:
    """One inbox for all streams that are sent over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = connection.new_inbox()
        self._sid: int | None = None
        # a reader sees the token of its own stream: it must not lead to those of others
        self._tokens = random_tokens()
        self._on_reader_gone: dict[str, Callable[[], object]] = {}

    async def __aenter__(self) -> Self:
        self._sid = await self._connection.subscribe_direct(f"{self._inbox}.*", self._on_message)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sid is not None:
            await self._connection.unsubscribe(self._sid)

    def open(self, to: str, on_reader_gone: Callable[[], object], headers: Headers) -> ReplyStream:
        """A stream to the inbox `to`, a checked address; `on_reader_gone` is called once when no
        reader listens there.
        """
        token = next(self._tokens)
        self._on_reader_gone[token] = on_reader_gone
        head = head_of(headers)

        def send(data: bytes) -> None:
            self._connection.publish_nowait(to, data, f"{self._inbox}.{token}", head)

        return ReplyStream(send, lambda: self._on_reader_gone.pop(token, None))

    def __len__(self) -> int:
        return len(self._on_reader_gone)

    def _on_message(
        self, subject: str, _reply: str, _data: bytes, _headers: Headers | None
    ) -> None:
        gone = self._on_reader_gone.pop(subject.rpartition(".")[2], None)
        if gone is not None:
            gone()


class ReplyStream:
    """One stream being sent. Close it when the last piece is sent."""

    def __init__(self, send: Callable[[bytes], None], close: Callable[[], object]) -> None:
        self.send = send
        self._close = close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
