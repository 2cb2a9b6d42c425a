"""What an agent stands on, made or refused before it begins: streams, its durables, and that nobody else works on them.

another store's id in the durable's metadata    refused: it would find every redelivery new (docs/requirements.md#mf-12)
filters that overlap on a work queue            refused, with the other durable's name (the server says 10100, and no name)
a stream that is not as declared                told, and left as its operator made it
a durable of ours that is not as declared       brought to what this start says
"""

from __future__ import annotations

from collections.abc import Sequence

from router.delivery import topology
from router.delivery.api import JetStream, Json
from router.delivery.topology import Topology
from router.errors import BrokerRefused, Misconfigured
from router.observability import events, logs
from router.runtime.places import Places, Post, overlapping, topology_of

log = logs.logger(__name__)

OVERLAPS = (10099, 10100)  # a work queue's consumers must not share a message


async def prepare(jetstream: JetStream, posts: Sequence[Post], places: Places, store_id: str) -> Topology:
    """What there is now. Raises Misconfigured, BrokerUnavailable, BrokerRefused."""
    wanted = topology_of(posts, places, store_id)
    for difference in await topology.create(jetstream, Topology(wanted.streams)):
        log.warning(events.TOPOLOGY_DRIFT, difference=str(difference))
    for post in posts:
        await _is_ours(jetstream, post, store_id)
        if places.is_work_queue(post.stream):
            await _is_alone(jetstream, post)
    await _durables(jetstream, Topology((), wanted.consumers))
    return wanted


async def restored(jetstream: JetStream, wanted: Topology, stream: str, durable: str) -> str | None:
    """A durable's identity: found, or made again after somebody deleted it. None: its stream is not there."""
    if (found := await topology.identity(jetstream, stream, durable)) is not None:
        return found
    if await jetstream.stream(stream) is None:
        return None
    await _durables(jetstream, Topology((), tuple(one for one in wanted.consumers if (one.stream, one.durable) == (stream, durable))))
    return await topology.identity(jetstream, stream, durable)


async def _durables(jetstream: JetStream, wanted: Topology) -> None:
    try:
        await topology.apply(jetstream, wanted)
    except BrokerRefused as exc:
        if exc.err_code in OVERLAPS:
            raise Misconfigured("filters", "they overlap with another durable's on a work queue") from exc
        raise


async def _is_ours(jetstream: JetStream, post: Post, store_id: str) -> None:
    info = await jetstream.consumer(post.stream, post.durable)
    owner = info["config"].get("metadata", {}).get("store") if info is not None else None
    if info is not None and owner != store_id:
        raise Misconfigured(
            "store",
            f"durable {post.durable} on {post.stream} belongs to another store ({owner or 'unknown'}): work with that one,"
            " or delete the durable if its store is gone",
        )


async def _is_alone(jetstream: JetStream, post: Post) -> None:
    for config in await _consumers(jetstream, post.stream):
        if config.get("durable_name") == post.durable:
            continue
        others = config.get("filter_subjects") or ([config["filter_subject"]] if config.get("filter_subject") else ())
        if (pair := overlapping(post.filters, others)) is not None:
            raise Misconfigured("filters", f"{pair[0]} overlaps with {pair[1]} of {config.get('name')}, and {post.stream} is a work queue")


async def _consumers(jetstream: JetStream, stream: str) -> list[Json]:
    found: list[Json] = []
    while True:
        page = await jetstream.ask(f"CONSUMER.LIST.{stream}", {"offset": len(found)})
        found += [info["config"] for info in page.get("consumers") or ()]
        if len(found) >= page["total"]:
            return found
