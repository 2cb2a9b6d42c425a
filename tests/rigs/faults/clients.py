"""The suite's own connections: one to each server. One to a healthy server publishes, all of them
subscribe.

A connection of the suite to a server that a fault stops would delay the load, and the run would
measure nats-py. So `current` takes the healthy servers in turn, and an answer reaches the suite
through any of them.
"""

from collections.abc import Awaitable, Callable, Sequence

from nats.aio.client import Client
from nats.aio.msg import Msg

Callback = Callable[[int, Msg], Awaitable[None]]


def _is_healthy(number: int) -> bool:
    return True


class Clients:
    """`is_healthy`: whether the server with this number is free of faults."""

    def __init__(
        self, each: Sequence[Client], is_healthy: Callable[[int], bool] = _is_healthy
    ) -> None:
        self._each = each
        self._is_healthy = is_healthy
        self._turn = 0

    def __len__(self) -> int:
        return len(self._each)

    @property
    def current(self) -> Client:
        """The next connection to a healthy server; if there is none, the next of all."""
        self._turn += 1
        usable = [
            client
            for number, client in enumerate(self._each)
            if client.is_connected and self._is_healthy(number)
        ]
        one_of = usable or self._each
        return one_of[self._turn % len(one_of)]

    async def subscribe(self, subject: str, callback: Callback) -> None:
        """The callback gets the number of the connection, too: a message comes once through each."""
        for number, client in enumerate(self._each):
            await client.subscribe(subject, cb=_numbered(number, callback), pending_bytes_limit=-1)
            await client.flush()

    async def close(self) -> None:
        for client in self._each:
            await client.close()


def _numbered(number: int, callback: Callback) -> Callable[[Msg], Awaitable[None]]:
    async def on_message(message: Msg) -> None:
        await callback(number, message)

    return on_message
