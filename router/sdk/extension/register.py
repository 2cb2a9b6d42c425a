"""Self-registration: ask the router to write an entry for each extension that has none.

An existing entry stays as it is: operators own it. The request goes to
`beamline.router.v1.admin.put_extension` with `replaces: 0`, so that the router itself decides which
of two was first. A router that does not answer is asked again: soon at first, then every minute, at
once after a reconnect. The extensions serve requests all the while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf

import nats.errors
import orjson

from router.core.clock import steady
from router.core.errors import RouterError, Unanswered
from router.delivery.wire.connection import Connection
from router.process.observability import LogRateLimit, events, logs
from router.sdk.extension.author import Extension

log = logs.logger(__name__)

PUT = "beamline.router.v1.admin.put_extension"
REGISTRATION_AUTHOR = "self-registration"
CONFLICT = "conflict"
TIMEOUT_S = 2.0
WAITS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # the last repeats
RECONNECT_CHECK_S = 0.25  # how soon a reconnect is noticed


class Registration:
    """The entries of one server's extensions."""

    def __init__(
        self,
        extensions: Sequence[Extension],
        instances: Mapping[str, int],
        api_key: str | None = None,
    ) -> None:
        self._entries = [entry_of(extension, instances) for extension in extensions]
        self._headers = {"api_key": api_key} if api_key is not None else None
        self._once = LogRateLimit(every_s=60.0)

    async def run(self, connection: Connection) -> None:
        """Run for ever: register each entry, and all of them again after a reconnect."""
        while True:
            lives = connection.reconnect_count
            await self._register_all(connection)
            await _pause(connection, inf, lives)

    async def _register_all(self, connection: Connection) -> None:
        left, tries, lives = list(self._entries), 0, connection.reconnect_count
        while left:
            left = [entry for entry in left if not await self._try_register(connection, entry)]
            if left:
                await _pause(connection, WAITS_S[min(tries, len(WAITS_S) - 1)], lives)
                tries, lives = tries + 1, connection.reconnect_count

    async def _try_register(self, connection: Connection, entry: Mapping[str, object]) -> bool:
        """Return True if nothing is left to do for this entry; a refusal is logged, and stays one
        until an operator acts.
        """
        try:
            is_new = await put_missing(connection, entry, self._headers)
        except Unanswered as exc:
            self._tell(entry, f"{exc}; it is served, and asked again")
            return False
        except RouterError as exc:
            self._tell(entry, str(exc))
            return True
        log.info(events.EXTENSION_REGISTERED, extension=entry["id"], is_new=is_new)
        return True

    def _tell(self, entry: Mapping[str, object], why: str) -> None:
        if self._once.allow(entry["id"]):
            log.warning(events.EXTENSION_UNREGISTERED, extension=entry["id"], why=why)


async def put_missing(
    connection: Connection, entry: Mapping[str, object], headers: Mapping[str, str] | None
) -> bool:
    """Return whether the entry was written now; False: one existed. Raises Unanswered; RouterError
    when the router refuses.
    """
    if not connection.is_connected:
        # a request would be kept until it is back, and so would each of the next ones
        raise Unanswered("the broker is away")
    body = orjson.dumps({**entry, "replaces": 0, "author": REGISTRATION_AUTHOR})
    try:
        answer = await connection.request(
            PUT, body, timeout=TIMEOUT_S, headers=dict(headers) if headers else None
        )
        response = orjson.loads(answer.data)
    except (nats.errors.Error, OSError) as exc:  # TimeoutError is an OSError
        raise Unanswered("no router answers to register it") from exc
    except orjson.JSONDecodeError as exc:
        raise Unanswered("what answers to register it is no router") from exc
    if not isinstance(response, dict):
        raise Unanswered("what answers to register it is no router")
    if response.get("ok") is True:
        return True
    error = found if isinstance(found := response.get("error"), dict) else {}
    if error.get("code") == CONFLICT:
        return False
    raise RouterError(f"the router refuses the entry: {error.get('code')}: {error.get('message')}")


def entry_of(extension: Extension, instances: Mapping[str, int]) -> dict[str, object]:
    """The registry entry that an extension asks for (docs/reference/extensions.md#registry)."""
    options = {"timeout_ms": extension.timeout_ms, "retry": extension.retry}
    shares = [{"id": instance, "weight": weight} for instance, weight in instances.items()]
    return {
        "id": extension.id,
        "type": extension.kind,
        "subject": extension.subject,
        **{name: value for name, value in options.items() if value is not None},
        **({"instances": shares} if shares else {}),
    }


async def _pause(connection: Connection, seconds: float, lives: int) -> None:
    """Wait `seconds`, or until the connection came back."""
    until = steady() + seconds
    while True:
        if connection.reconnect_count != lives or steady() >= until:
            return
        await asyncio.sleep(RECONNECT_CHECK_S)
