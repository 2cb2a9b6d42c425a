"""What the author of an agent writes, and the values that the runtime passes to it.

    class Greeter:
        name = "greeter"

        def receive(self, envelope): ...                        # refuse an envelope that is not for this agent: raise Poison
        def apply(self, ctx, envelope):                         # state and messages: one commit
            ctx.state.put("greeted", ctx.state.get("greeted", 0) + 1) return
            [Outgoing("evt.default.demo.greeted", "greeted", {"name": envelope.payload["name"]})]

`apply` runs in the store's own thread, and may run again for the same envelope (a crash, a
failure): its changes to the state and its messages count once. Other effects on the world happen at
least once, so it gets the key.

    it raises Poison      a dead letter at once
    it raises else        its changes are rolled back; the message is delivered again, up to the
                          limit, then a dead letter
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

from msgspec import Struct

from router.agents.envelope import Envelope, Ts
from router.core.user_functions import HandlerMisused, require_call

NO_FILTERS: tuple[str, ...] = ()


class Outgoing(Struct, frozen=True, gc=False):
    """A message to publish once `apply` is committed. The runtime sets its id, trace, span and
    cause.

    `payload`: any JSON value; `Raw(envelope.payload_json)` sends on every digit that came. `ts`:
    None = the logical time of the envelope that caused it.
    """

    subject: str
    type: str
    payload: Any = None
    ts: Ts | None = None


class AgentState(Protocol):
    """The memory of an agent: JSON values under names, in the same file and the same commit as its
    messages.
    """

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a copy: a change must be `put`."""

    def put(self, name: str, value: Any) -> None:
        """Raises TypeError for a value that JSON cannot hold; Poison for a name above 512
        characters or a value above 64 MiB.
        """

    def delete(self, name: str) -> None: ...


class Context(Struct, frozen=True, gc=False):
    """The arguments of `apply` beside the envelope. `idempotency_key` is for calls to the outside:
    they may happen more than once.
    """

    agent: str
    idempotency_key: str
    state: AgentState
    attempt: int  # from 1


@runtime_checkable
class AgentAdapter(Protocol):
    """An agent. It may also have `filters`: subjects with wildcards, in place of the default
    `cmd.{scope}.{name}.>`.
    """

    @property
    def name(self) -> str: ...

    def receive(self, envelope: Envelope) -> None:
        """Check the envelope before anything is done. Raises Poison for one that can never be
        applied.
        """

    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing] | None:
        """Must be deterministic: the same envelopes in the same order give the same state and the
        same messages.
        """


def check_adapter(adapter: AgentAdapter) -> None:
    """Raises Misconfigured for methods that could not be called: they must be plain ones, since
    they run in the store's thread.
    """
    require_call("receive", adapter.receive, "envelope", is_async=False)
    require_call("apply", adapter.apply, "ctx", "envelope", is_async=False)


def read_messages(answer: object) -> Sequence[Outgoing]:
    """What `apply` returned. Raises HandlerMisused for what is no list of messages: the next
    attempt would return the same.
    """
    if answer is None:
        return ()
    if type(answer) is list:  # nearly always; to ask the abstract classes costs a microsecond
        messages = answer
    elif isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping):
        messages = list(answer)
    else:
        _refuse(type(answer).__name__)
    for message in messages:
        if type(message) is not Outgoing and not isinstance(message, Outgoing):
            _refuse(f"{type(answer).__name__} of {type(message).__name__}")
    return messages


def _refuse(returned: str) -> NoReturn:
    raise HandlerMisused(
        "apply", f"it returned {returned}, and should return None or a list of Outgoing"
    )


def filters_of(adapter: AgentAdapter) -> Sequence[str]:
    """The filters that the adapter names itself; empty = the default."""
    return tuple(getattr(adapter, "filters", NO_FILTERS))
