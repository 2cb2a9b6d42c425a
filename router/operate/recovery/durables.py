"""Where the durables of a promoted place begin: the earliest start that any promotion of it was
given.

The streams of effects keep that start (`PROMOTED_SINCE`), beyond `router topology apply`. A
promoted place stores messages of its own, the audit event of the promotion first; so a later call
that looked for the newest message again would begin after what is unfinished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from secrets import token_hex

from router.core.errors import NotFound
from router.delivery.wire.api import JetStream, Json, nanos
from router.delivery.wire.topology import NANOS_PER_S, ConsumerSpec, StreamSpec

# what was in flight at the lost place is younger than that, unless it waited for a full stream
LOOK_BACK = timedelta(minutes=10)

PROMOTED_SINCE = "router-promoted-since"  # metadata of a stream of effects: an ISO time


async def choose_start(
    jetstream: JetStream, streams: Sequence[StreamSpec], asked: datetime | None
) -> datetime:
    """What is asked for; otherwise a little before the newest message of the mirrors; never later
    than the start of an earlier call.

    Raises NotFound where streams are, and none of them is a mirror or was one.
    """
    infos = [info for spec in streams if (info := await jetstream.stream(spec.name)) is not None]
    starts = [start for info in infos if (start := _read_start(info)) is not None]
    mirrors = [info for info in infos if info["config"].get("mirror")]
    if infos and not starts and not mirrors:
        raise NotFound(
            "there is nothing to promote: no stream here is a mirror of another place, or was one"
        )
    if asked is not None:
        starts.append(asked)
    return min(starts, default=None) or (_find_newest(mirrors) or datetime.now(UTC)) - LOOK_BACK


async def start_durables(
    jetstream: JetStream, consumers: Iterable[ConsumerSpec], since: datetime
) -> None:
    """Make each durable that is missing, and let it deliver from the first message since `since`.
    One that delivered keeps its place.

    `since`: of `choose_start`. A later time would take from a durable what an earlier call gave it.
    """
    for consumer in consumers:
        info = await jetstream.consumer(consumer.stream, consumer.durable)
        if info is None:
            body = {
                "stream_name": consumer.stream,
                "config": consumer.to_json(),
                "action": "create",
            }
            await jetstream.ask(f"CONSUMER.CREATE.{consumer.stream}.{consumer.durable}", body)
        if info is None or not info["delivered"]["consumer_seq"]:
            await _start_at(jetstream, consumer, since)


def _read_start(info: Json) -> datetime | None:
    noted = (info["config"].get("metadata") or {}).get(PROMOTED_SINCE)
    return datetime.fromisoformat(noted) if noted is not None else None


def _find_newest(infos: Iterable[Json]) -> datetime | None:
    """When the newest message of these streams was stored: so far the mirrors had come. None: they
    hold none.
    """
    newest = max(
        (nanos(info["state"]["last_ts"]) for info in infos if info["state"]["messages"]),
        default=None,
    )
    return datetime.fromtimestamp(newest / NANOS_PER_S, UTC) if newest is not None else None


async def _start_at(jetstream: JetStream, consumer: ConsumerSpec, since: datetime) -> None:
    """By a reset: its configuration stays the declared one. A durable that was just made may have
    no leader yet, and hears nothing.
    """
    first = await _find_first_since(jetstream, consumer.stream, since)
    await jetstream.ask_repeatedly(
        f"CONSUMER.RESET.{consumer.stream}.{consumer.durable}", {"seq": first}
    )


async def _find_first_since(jetstream: JetStream, stream: str, since: datetime) -> int:
    """The sequence of the first message that was stored since then, or of the next one to be
    stored.
    """
    name = f"since-{token_hex(8)}"
    start = {"deliver_policy": "by_start_time", "opt_start_time": since.isoformat()}
    config = {"name": name, "ack_policy": "none", "mem_storage": True, **start}
    info = await jetstream.ask(
        f"CONSUMER.CREATE.{stream}.{name}",
        {"stream_name": stream, "config": config, "action": "create"},
    )
    await jetstream.ask(f"CONSUMER.DELETE.{stream}.{name}")
    return int(info["delivered"]["stream_seq"]) + 1
