"""nats-py's client with the patience that a busy machine needs, wherever a test leaves a deadline
to the library.

nats-py gives a request half a second, an acknowledged ack one, a connection two, and JetStream's
API five. On a machine with two processors and ten tasks that wait for them each of these ends now
and then, and a test fails that is about something else. A test that means a deadline names it.
"""

import asyncio
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, JetStreamManager

PATIENCE_S = 60


class PatientClient(Client):
    """A plain nats-py client, as an author of a gateway uses it, but for its defaults."""

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """nats-py writes the PING past its own buffer, so a flush would confirm no SUB that waits
        there.
        """
        if self._pending and self.is_connected and self._transport is not None:
            self._transport.writelines(self._pending[:])
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def flush(self, timeout: int = 2 * PATIENCE_S) -> None:  # noqa: ASYNC109 - nats-py's own parameter
        await super().flush(timeout)

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = PATIENCE_S,  # noqa: ASYNC109
        *args: Any,
        **more: Any,
    ) -> Msg:
        return await super().request(subject, payload, timeout, *args, **more)

    def jetstream(self, **options: Any) -> JetStreamContext:
        return super().jetstream(**{"timeout": PATIENCE_S, **options})

    def jsm(self, **options: Any) -> JetStreamManager:
        return super().jsm(**{"timeout": PATIENCE_S, **options})


async def connect_patiently(servers: str | list[str], **options: Any) -> PatientClient:
    """As `nats.connect`."""
    client = PatientClient()
    await client.connect(servers, **{"connect_timeout": PATIENCE_S, **options})
    return client
