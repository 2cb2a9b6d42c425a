"""Makes streams that were deleted a moment ago.

As long as the server removes the directory of an older one of the same name, it refuses a new one,
or its new one holds what the last one held (docs/explanation/durability.md#made-anew).
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from router.core.errors import BrokerRefused
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream, nanos
from router.delivery.wire.topology import StreamSpec, Topology
from tests.support.waiting import until

STORE_NOT_CREATED = 10049  # JetStream's number

Made = TypeVar("Made")


async def create_streams(jetstream: JetStream, *streams: StreamSpec) -> None:
    """Those that are missing, and these are empty."""
    missing = [spec.name for spec in streams if await jetstream.stream(spec.name) is None]

    async def create() -> None:
        await topology.create(jetstream, Topology(streams))
        await _refuse_what_came_back(jetstream, missing)

    await retry_while_removed(create)


async def create_stream(jetstream: JetStream, name: str, config: dict[str, Any]) -> None:
    async def create() -> None:
        await jetstream.ask(f"STREAM.CREATE.{name}", {"name": name, **config})
        await _refuse_what_came_back(jetstream, [name])

    await retry_while_removed(create)


async def make_anew(jetstream: JetStream, wanted: Topology) -> None:
    """Its streams, deleted where they are there, and all of it made: sequences begin at 1."""
    names = [spec.name for spec in wanted.streams]

    async def make() -> None:
        await delete_streams(jetstream, names)
        await topology.apply(jetstream, wanted)
        await _refuse_what_came_back(jetstream, names)

    await retry_while_removed(make)


async def delete_streams(jetstream: JetStream, names: Iterable[str]) -> None:
    for name in names:
        if await jetstream.stream(name) is not None:
            await jetstream.ask(f"STREAM.DELETE.{name}")


async def _refuse_what_came_back(jetstream: JetStream, names: Iterable[str]) -> None:
    for name in names:
        info = await jetstream.stream(name)
        # what a live program stored since is no message of the last one
        if (
            info is not None
            and nanos(info["state"]["first_ts"]) < nanos(info["created"])
            and (info["state"]["last_seq"])
        ):
            await jetstream.ask(f"STREAM.DELETE.{name}")
            raise BrokerRefused(STORE_NOT_CREATED, f"{name} holds what the last one held")


async def retry_while_removed(create: Callable[[], Awaitable[Made]]) -> Made:
    """What `create` returns, called again as long as the server removes what it creates."""
    made: list[Made] = []

    async def is_created() -> bool:
        try:
            made.append(await create())
        except BrokerRefused as exc:
            if exc.err_code != STORE_NOT_CREATED:
                raise
            return False
        return True

    await until(is_created, within_s=60.0, what="the streams are there")
    return made[0]
