"""What calling extensions needs of the world: somebody who calls a subject, and somebody who counts."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

from router.errors import NoResponders


class ExtensionReply(Protocol):
    """What a service answered; `error_code` stands where it said no (4xx: the request's fault; 5xx: its own)."""

    @property
    def data(self) -> bytes: ...

    @property
    def error_code(self) -> int | None: ...

    @property
    def error(self) -> str | None: ...


class ExtensionCaller(Protocol):
    """Request-reply."""

    def head(self, headers: Mapping[str, str]) -> bytes:
        """Headers as they are sent: made once for all calls that bear them."""

    def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> Awaitable[ExtensionReply]:
        """Raises CallTimeout, NoResponders, BrokerUnavailable, or Poison for what the broker would never take.

        The call's own deadline joins its headers.
        """


class ExtensionMeter(Protocol):
    """Who counts and logs. Called on the loop, so it must be quick."""

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None:
        """One attempt ended. `status`: ok | refused | error | timeout | unavailable, open (its breaker: nothing was sent),
        late (the caller gave less time than the registry allows)."""

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None:
        """It failed, or rejected, and its mode says `warn`."""


class NullCaller:
    """A caller that reaches nobody."""

    def head(self, headers: Mapping[str, str]) -> bytes:
        return b""

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> ExtensionReply:
        raise NoResponders(f"{subject}: nobody is called here")


class NullExtensionMeter:
    """A meter that looks away."""

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None: ...

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None: ...


NULL_METER: ExtensionMeter = NullExtensionMeter()
