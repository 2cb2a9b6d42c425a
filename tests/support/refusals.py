"""What an operator can do to a stream by the nats tool, so that JetStream refuses publishes or
changes what it takes; and its end.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from router.delivery.wire.api import JetStream
from tests.support.made_anew import retry_while_removed

TOO_SMALL_BYTES = 150  # less than any effect of ours with its headers
# whose fault: docs/reference/contracts.md#cannot-be-stored
MESSAGE, STREAM, FULL = "message", "stream", "full"
TAKEN = "taken"  # no fault: the publish is acknowledged
FILLER = b"stands in the way"

Spoil = Callable[[JetStream, str], Awaitable[None]]


class Refusal(Struct, frozen=True):
    """`code`: JetStream's number, 0 where it takes the publish."""

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


async def make_too_small(jetstream: JetStream, stream: str, size: int = TOO_SMALL_BYTES) -> None:
    await _change(jetstream, stream, max_msg_size=size)


async def fill(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, max_bytes=1, discard="new")


async def keep_one_of_a_subject(jetstream: JetStream, stream: str) -> None:
    """A message stands on each literal subject of the stream, and it takes no second one there."""
    info = await jetstream.stream(stream)
    assert info is not None
    for subject in info["config"]["subjects"]:
        if "*" not in subject and ">" not in subject:
            await jetstream.connection.request(subject, FILLER, timeout=5)
    limits = {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}
    await _change(jetstream, stream, **limits)


async def deny_removals(jetstream: JetStream, stream: str) -> None:
    """Nothing is deleted or purged, so the server takes no roll-up either."""
    await _change(jetstream, stream, deny_delete=True, deny_purge=True, allow_rollup_hdrs=False)


async def deny_deletes(jetstream: JetStream, stream: str) -> None:
    """As `nats kv add` makes a bucket: keys are purged, no message is deleted by its number."""
    await _change(jetstream, stream, deny_delete=True)


async def republish(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, republish={"src": ">", "dest": "copies.>"})


async def rename_subjects(jetstream: JetStream, stream: str) -> None:
    await _change(jetstream, stream, subject_transform={"src": ">", "dest": "moved.>"})


REFUSALS = (
    Refusal("sealed", 10109, STREAM, seal),
    Refusal("deleted", 10059, STREAM, delete),
    Refusal("subject taken off", 10059, STREAM, take_subject_off),
    Refusal("max_msg_size", 10054, MESSAGE, make_too_small),
    Refusal("full", 10077, FULL, fill),
    Refusal("discard_new_per_subject", 10077, FULL, keep_one_of_a_subject),
    Refusal("deny_delete and deny_purge", 0, TAKEN, deny_removals),
    Refusal("deny_delete", 0, TAKEN, deny_deletes),
    Refusal("republish", 0, TAKEN, republish),
    Refusal("subject_transform", 0, TAKEN, rename_subjects),
)
NEVER_UNDONE = ("sealed", "deny_delete", "deny_purge")


async def mend(jetstream: JetStream, config: dict[str, Any]) -> None:
    """The stream as it was: it is changed back, or made anew where the server changes it no more."""
    stream = config["name"]
    info = await jetstream.stream(stream)
    if info is not None and all(
        bool(info["config"].get(name)) == bool(config.get(name)) for name in NEVER_UNDONE
    ):
        await _remove_filler(jetstream, stream, info)
        await jetstream.ask(f"STREAM.UPDATE.{stream}", config)
        return
    if info is not None:
        await delete(jetstream, stream)
    await retry_while_removed(lambda: jetstream.ask(f"STREAM.CREATE.{stream}", config))


async def _remove_filler(jetstream: JetStream, stream: str, info: dict[str, Any]) -> None:
    if not info["config"].get("discard_new_per_subject"):
        return
    for sequence in range(max(1, info["state"]["first_seq"]), info["state"]["last_seq"] + 1):
        stored = await jetstream.message(stream, sequence)
        if stored is not None and stored.data == FILLER:
            await jetstream.ask(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})
