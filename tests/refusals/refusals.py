"""What an operator can do to a stream by the nats tool, so that JetStream refuses each publish; and the stream made whole again."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from router.delivery.api import JetStream
from tests.support.made_anew import retry_while_removed

TOO_SMALL_BYTES = 150  # less than any effect of ours with its headers
MESSAGE, STREAM, FULL = "message", "stream", "full"  # whose fault: docs/reference/contracts.md#cannot-be-stored

Spoil = Callable[[JetStream, str], Awaitable[None]]


class Refusal(Struct, frozen=True):
    """`code`: JetStream's number."""

    name: str
    code: int
    fault: str
    spoil: Spoil


async def _change(jetstream: JetStream, stream: str, **fields: Any) -> None:
    info = await jetstream.stream(stream)
    assert info is not None
    await jetstream.ask(f"STREAM.UPDATE.{stream}", {**info["config"], **fields})


async def seal(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, sealed=True)


async def delete(jetstream: JetStream, stream: str) -> None:
    await jetstream.ask(f"STREAM.DELETE.{stream}")


async def take_subject_off(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, subjects=[f"nothing.of.{stream}"])


async def make_too_small(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, max_msg_size=TOO_SMALL_BYTES)


async def fill(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, max_bytes=1, discard="new")


REFUSALS = (
    Refusal("sealed", 10109, STREAM, seal),
    Refusal("deleted", 10059, STREAM, delete),
    Refusal("subject taken off", 10059, STREAM, take_subject_off),
    Refusal("max_msg_size", 10054, MESSAGE, make_too_small),
    Refusal("full", 10077, FULL, fill),
)


async def mend(jetstream: JetStream, config: dict[str, Any]) -> None:
    """The stream as it was: it is changed back, or made anew where the server changes it no more."""
    stream = config["name"]
    info = await jetstream.stream(stream)
    if info is not None and not info["config"].get("sealed"):
        await jetstream.ask(f"STREAM.UPDATE.{stream}", config)
        return
    if info is not None:
        await delete(jetstream, stream)
    await retry_while_removed(lambda: jetstream.ask(f"STREAM.CREATE.{stream}", config))
