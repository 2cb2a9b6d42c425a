"""A connection with a role's key, on plain nats-py: back at once when its server is, and silent
about every failed try.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

AGAIN_S = 0.1
STORED_S = 3.0  # for a publish ack


class Login(Struct, frozen=True):
    """Where the server is, and the keys of all roles."""

    url: str
    keys: str

    async def connect(self, user: str, inbox: str | None = None) -> Client:
        """As this user of accounts.conf, with the inboxes that it may hear."""

        async def unheard(_: Exception) -> None: ...

        return await nats.connect(
            self.url,
            nkeys_seed=str(Path(self.keys) / f"{user}.nk"),
            inbox_prefix=(inbox or f"_INBOX_{user}").encode(),
            reconnect_time_wait=0.05,
            max_reconnect_attempts=-1,
            allow_reconnect=True,
            connect_timeout=30,
            error_cb=unheard,
            pending_size=16 * 1024 * 1024,
        )


async def store(
    client: Client, subject: str, body: bytes, headers: dict[str, str] | None = None
) -> None:
    """Return once it is stored, however often the server is killed meanwhile."""
    while True:
        try:
            answer = json.loads(
                (await client.request(subject, body, timeout=STORED_S, headers=headers)).data
            )
        except Error:
            await asyncio.sleep(AGAIN_S)
            continue
        if "error" not in answer:
            return
        await asyncio.sleep(AGAIN_S)


def header(message: Msg, name: str) -> str:
    return (message.headers or {}).get(name, "")
