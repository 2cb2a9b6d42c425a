"""Check whether a consumer can still get a version of the schema, before its support is dropped
(docs/reference/requirements.md#x6).

The specification drops it "after the duplicate window expires", two minutes; a stream keeps its
messages for seven days, and a consumer that lags would TERM every one of them. So this reads the
streams themselves:

    standing    messages of the version that a stream still holds; the server removes the last one
                at `gone_at`
    waiting     those above a durable's ack floor: they may be delivered again, or for the first
                time
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import orjson
from msgspec import Struct

from router.core import ids
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, Json, StoredMessage
from router.delivery.wire.topology import NANOS_PER_S

READ_BATCH = 1000


class VersionUsage(Struct, frozen=True, kw_only=True):
    """One stream, one version. `waiting`: by durable, those with none included; `gone_at`: ISO,
    None where nothing is removed by age.
    """

    stream: str
    version: str
    standing: int
    waiting: Mapping[str, int]
    gone_at: str | None = None

    @property
    def is_over(self) -> bool:
        """No consumer can get the version there any more, not even one that starts from the first
        message.
        """
        return self.standing == 0

    @property
    def is_awaited(self) -> bool:
        """An existing durable still has messages of it to deliver."""
        return any(self.waiting.values())


async def find_version_usage(
    jetstream: JetStream,
    stream: str,
    version: str,
    on_progress: Callable[[int, int], None] = lambda *_: None,
) -> VersionUsage | None:
    """Count the messages of one version in one stream; None if there is no such stream.

    Reads every message in the stream once. Raises BrokerUnavailable.
    """
    info = await jetstream.stream(stream)
    if info is None:
        return None
    durables = [_Durable(consumer) for consumer in await _consumers(jetstream, stream)]
    standing, newest = 0, None
    async with open_reader(jetstream, stream) as reader:
        seen = 0
        async for batch in reader.read_all(READ_BATCH):
            seen += len(batch)
            for message in batch:
                if _version_of(message.data) == version:
                    standing, newest = standing + 1, message
                    for durable in durables:
                        durable.see(message)
            on_progress(seen, reader.total)
    waiting = {durable.name: durable.waiting for durable in durables}
    gone_at = _expiry_of(newest, info["config"]["max_age"]) if newest is not None else None
    return VersionUsage(
        stream=stream, version=version, standing=standing, waiting=waiting, gone_at=gone_at
    )


class _Durable:
    """The messages that a durable has still to deliver. Some above its ack floor may be settled
    already: they count as well, to be safe.
    """

    def __init__(self, info: Json) -> None:
        config = info["config"]
        filters = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
        self.name: str = info["name"]
        self.waiting = 0
        self._floor: int = info["ack_floor"]["stream_seq"]
        self._wants = ids.subject_matcher(filters)

    def see(self, message: StoredMessage) -> None:
        if message.sequence > self._floor and self._wants(message.subject):
            self.waiting += 1


async def _consumers(jetstream: JetStream, stream: str) -> Sequence[Json]:
    """List every durable; ephemeral consumers disappear by themselves."""
    consumers: list[Json] = []
    while True:
        page = await jetstream.ask(f"CONSUMER.LIST.{stream}", {"offset": len(consumers)})
        consumers += page["consumers"] or []
        if not page["consumers"] or len(consumers) >= page["total"]:
            return [consumer for consumer in consumers if consumer["config"].get("durable_name")]


def _version_of(data: bytes) -> object:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return body.get("schema_version") if isinstance(body, dict) else None


def _expiry_of(newest: StoredMessage, max_age_ns: int) -> str | None:
    """The time at which the server will have removed it by age."""
    if not max_age_ns:
        return None
    stored = datetime.fromisoformat(newest.time).astimezone(UTC)
    return (
        (stored + timedelta(seconds=max_age_ns / NANOS_PER_S))
        .isoformat(timespec="seconds")
        .replace("+00:00", "Z")
    )
