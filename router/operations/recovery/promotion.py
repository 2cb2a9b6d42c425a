"""Mirrors of a place that is lost, made the streams of this one.

    each declared stream   a mirror: the mirror is taken off it, and it takes messages from now on; missing: made
    each declared durable  made, and set to the first message since `since`; what was settled at the lost place is handled again

What is handled again changes nothing once the servers were started again (`windows`): its effects have the ids that they had, because a
mirror keeps sequences and times. Nothing is deleted, and a second call goes on where the first one ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from secrets import token_hex

import nats.errors
from msgspec import Struct

from router.core.errors import RouterError
from router.delivery.api import JetStream, Json, nanos
from router.delivery.topology import NANOS_PER_S, ConsumerSpec, StreamSpec
from router.operations.recovery.windows import widen

ANSWER_S = 2.0


class PlaceAnswers(RouterError):
    """The place that the mirrors copy is not lost. Two places that take the same messages would both handle them."""

    code = "place_answers"


class PromotedStream(Struct, frozen=True):
    """A stream, and how far its mirror had come. `state`: promoted, made, or is ours (it was no mirror)."""

    name: str
    state: str
    messages: int
    last_sequence: int
    last_time: str


async def promote_streams(
    jetstream: JetStream, streams: Sequence[StreamSpec], since: datetime, effects: Collection[str], *, is_forced: bool = False
) -> list[PromotedStream]:
    """Promote these streams. Raises PlaceAnswers unless `is_forced`."""
    infos = {spec.name: await jetstream.stream(spec.name) for spec in streams}
    if not is_forced:
        await _require_silence(jetstream, [info for info in infos.values() if info is not None])
    return [await _promote(jetstream, spec, infos[spec.name], since, effects) for spec in streams]


async def start_durables(jetstream: JetStream, consumers: Iterable[ConsumerSpec], since: datetime) -> None:
    """Make each durable that is missing, and let it deliver from the first message since `since`. One that delivered keeps its place."""
    for consumer in consumers:
        info = await jetstream.consumer(consumer.stream, consumer.durable)
        if info is None:
            body = {"stream_name": consumer.stream, "config": consumer.to_json(), "action": "create"}
            await jetstream.ask(f"CONSUMER.CREATE.{consumer.stream}.{consumer.durable}", body)
        if info is None or not info["delivered"]["consumer_seq"]:
            await _start_at(jetstream, consumer, since)


async def find_newest(jetstream: JetStream, streams: Iterable[StreamSpec]) -> datetime | None:
    """When the newest message of these streams was stored: so far their mirrors had come. None: they hold none."""
    infos = [info for spec in streams if (info := await jetstream.stream(spec.name)) is not None]
    newest = max((nanos(info["state"]["last_ts"]) for info in infos if info["state"]["messages"]), default=None)
    return datetime.fromtimestamp(newest / NANOS_PER_S, UTC) if newest is not None else None


async def _require_silence(jetstream: JetStream, infos: list[Json]) -> None:
    """Raises PlaceAnswers if the API of a mirrored domain answers."""
    mirrors = [info["config"]["mirror"] for info in infos if info["config"].get("mirror")]
    for api in {(mirror.get("external") or {}).get("api", "$JS.API") for mirror in mirrors}:
        try:
            await jetstream.connection.request(f"{api}.INFO", timeout=ANSWER_S)
        except (nats.errors.NoRespondersError, TimeoutError):
            continue
        raise PlaceAnswers(f"{api} answers: the mirrored place is not lost. Stop its routers and cut the leaf node connection, or --force")


async def _promote(jetstream: JetStream, spec: StreamSpec, info: Json | None, since: datetime, effects: Collection[str]) -> PromotedStream:
    body = spec.to_json()
    if spec.name in effects:
        body = widen({**body, "metadata": _metadata(info)}, since, datetime.now(UTC))
    if info is None:
        await jetstream.ask(f"STREAM.CREATE.{spec.name}", body)
        return PromotedStream(spec.name, "made", 0, 0, "")
    state, is_mirror = info["state"], bool(info["config"].get("mirror"))
    if is_mirror:
        config = {name: value for name, value in info["config"].items() if name != "mirror"}
        await jetstream.ask(f"STREAM.UPDATE.{spec.name}", {**config, **body})
    last = (state["last_seq"], state["last_ts"]) if state["messages"] else (state["last_seq"], "")
    return PromotedStream(spec.name, "promoted" if is_mirror else "is ours", state["messages"], *last)


async def _start_at(jetstream: JetStream, consumer: ConsumerSpec, since: datetime) -> None:
    """By a reset: its configuration stays the declared one. A durable that was just made may have no leader yet, and hears nothing."""
    first = await find_first_since(jetstream, consumer.stream, since)
    await jetstream.ask_repeatedly(f"CONSUMER.RESET.{consumer.stream}.{consumer.durable}", {"seq": first})


def _metadata(info: Json | None) -> Json:
    return (info["config"].get("metadata") if info is not None else None) or {}


async def find_first_since(jetstream: JetStream, stream: str, since: datetime) -> int:
    """The sequence of the first message that was stored since then, or of the next one to be stored."""
    name = f"since-{token_hex(8)}"
    start = {"deliver_policy": "by_start_time", "opt_start_time": since.isoformat()}
    config = {"name": name, "ack_policy": "none", "mem_storage": True, **start}
    info = await jetstream.ask(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": config, "action": "create"})
    await jetstream.ask(f"CONSUMER.DELETE.{stream}.{name}")
    return int(info["delivered"]["stream_seq"]) + 1
