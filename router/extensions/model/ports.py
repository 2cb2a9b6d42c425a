"""The ports of this room: one that calls a subject, one that counts calls, one that bills what
reaches a provider.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

from router.core.errors import NoResponders


class ExtensionReply(Protocol):
    """A service's reply; `error_code` is set where it is an error (4xx: the request's fault; 5xx:
    its own).
    """

    @property
    def data(self) -> bytes: ...

    @property
    def error_code(self) -> int | None: ...

    @property
    def error(self) -> str | None: ...

    @property
    def fault(self) -> str | None:
        """Whose fault an error was, where the service says it."""

    @property
    def retry_after_ms(self) -> int | None: ...


class ExtensionCaller(Protocol):
    """Request-reply."""

    def head(self, headers: Mapping[str, str]) -> bytes:
        """The encoded headers, made once for all calls that share them."""

    def call(
        self, subject: str, data: bytes, head: bytes, timeout_s: float
    ) -> Awaitable[ExtensionReply]:
        """Raises CallTimeout, NoResponders, BrokerUnavailable, or Poison for what the broker would
        never take.

        The call's own deadline joins its headers.
        """


class ExtensionMeter(Protocol):
    """Counts and logs calls. Its methods run on the event loop, so they must be quick."""

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None:
        """One attempt ended. `status`: ok | refused | error | timeout | unavailable, open (its breaker: nothing was sent),
        late (the caller gave less time than the registry allows), overrun (its stream came faster
        than it was read).
        """

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None:
        """It failed, or rejected, and its mode says `warn`."""


class InvocationLedger(Protocol):
    """One invocation of a provider, attempt by attempt (docs/reference/extensions.md#metered).

    begin ── stored ──> the call ── take, for each thing that comes back ──> end
    """

    async def begin(self, model: str | None, timeout_s: float) -> None:
        """Record an attempt that calls the provider next, for at most `timeout_s`. `model`: the
        registry's.

        Raises ExtensionFailure where the provider must not be called.
        """

    def take(self, data: str | bytes, metadata: Mapping[str, str]) -> None:
        """The provider has sent this."""

    def require_budget(self) -> None:
        """Raises ExtensionFailure where the budget has no room for what has come by now."""

    def end(self, status: str, *, was_sent: bool = True) -> None:
        """The attempt that was begun last has ended; nothing where none is open. `was_sent`: it may
        have reached the provider.
        """


class NullCaller:
    """A caller that reaches no service."""

    def head(self, headers: Mapping[str, str]) -> bytes:
        return b""

    async def call(
        self, subject: str, data: bytes, head: bytes, timeout_s: float
    ) -> ExtensionReply:
        raise NoResponders(f"{subject}: this caller reaches no service")


class NullExtensionMeter:
    """A meter that counts nothing."""

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None: ...

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None: ...


NULL_METER: ExtensionMeter = NullExtensionMeter()
