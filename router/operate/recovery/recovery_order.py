"""In which order a place's streams are copied, which of them hold effects
(docs/how-to/two-places.md), and for how long those must know the ids of their messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from router.config import DECIDE, Settings, select_partition
from router.core.errors import NotFound
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import NANOS_PER_S, WIDENED_WINDOW, StreamSpec, Topology
from router.operate.dead_letters.journal import journal_bucket
from router.operate.topology.declared_topology import (
    declare_partitions,
    declare_topology,
    list_partitions,
    list_promotable_partitions,
)


def list_in_order(settings: Settings, partitions: Sequence[str] = ()) -> list[StreamSpec]:
    """Every declared stream and those of the partitions, each before those of its effects: request,
    assignment, result, usage event.

    What is spent of budgets comes before the usage events: each one that is settled there has its
    event in the later copy. So do the attempts of invocations: each one whose record is not in the
    copy has its event there.
    """
    streams, spent = settings.streams, f"KV_{settings.buckets.budgets_spent.name}"
    usage = (f"KV_{settings.buckets.invocations.name}", streams.usage.name, streams.held.name)
    effects = (
        streams.assignments.name,
        streams.results.name,
        streams.acks.name,
        spent,
        *usage,
        streams.dlq.name,
    )
    rank = {name: number for number, name in enumerate(effects, start=1)}
    buckets = len(rank) + 1  # written before their message is acked, whichever stream it stands in
    declared = {
        spec.name: spec
        for spec in (*declare_topology(settings).streams, *declare_partitions(settings, partitions))
    }
    return sorted(
        declared.values(),
        key=lambda spec: rank.get(spec.name, buckets if spec.name.startswith("KV_") else 0),
    )


async def find_in_order(jetstream: JetStream, settings: Settings) -> list[StreamSpec]:
    """`list_in_order` with what is on the server and not declared. Raises as `JetStream.ask`.

    That is every partition, whichever of them the settings name, and behind the dead letters the
    journal of a replay: after a restore it tells which of them a replay that was killed has sent.
    """
    whole = select_partition(settings, None)
    partitions = await list_partitions(
        jetstream, DECIDE.read_stream(whole).name, settings.decide.subject
    )
    return await _add_journal(jetstream, whole, list_in_order(whole, partitions))


async def find_promotable(jetstream: JetStream, settings: Settings) -> Topology:
    """What a promotion makes of a place: what is declared, each partition that is mirrored there,
    or was, and the journal of a replay.

    The streams are in their order. Raises as `JetStream.ask`.
    """
    whole = select_partition(settings, None)
    partitions = await list_promotable_partitions(
        jetstream, DECIDE.read_stream(whole).name, settings.decide.subject
    )
    streams = await _add_journal(jetstream, whole, list_in_order(whole, partitions))
    parts = [
        declare_topology(select_partition(settings, partition)).consumers
        for partition in (None, *partitions)
    ]
    durables = {
        (consumer.stream, consumer.durable): consumer for part in parts for consumer in part
    }
    return Topology(tuple(streams), tuple(durables.values()))


async def _add_journal(
    jetstream: JetStream, settings: Settings, streams: list[StreamSpec]
) -> list[StreamSpec]:
    """These streams, and behind the dead letters the journal of a replay if there is one."""
    dead_letters = settings.streams.dlq
    journal, at = (
        journal_bucket(dead_letters.name, dead_letters.replicas),
        [spec.name for spec in streams].index(dead_letters.name) + 1,
    )
    info = await jetstream.stream(journal.name)
    return streams if info is None else [*streams[:at], journal, *streams[at:]]


async def list_to_save(
    jetstream: JetStream, settings: Settings, others: Iterable[str]
) -> list[str]:
    """The streams of a backup in its order, `others` first: a message of theirs may have its effect
    in any of the router's streams.

    Behind each of them comes the journal that it has if it holds dead letters. One of the router's
    that is given as another keeps its place. Raises NotFound: one of the others does not exist.
    """
    ours = [spec.name for spec in await find_in_order(jetstream, settings)]
    added = [name for name in others if name not in ours]
    missing = [name for name in added if await jetstream.stream(name) is None]
    if missing:
        raise NotFound(f"nothing was saved, for these streams do not exist: {', '.join(missing)}")
    return [*(saved for name in added for saved in (name, journal_bucket(name).name)), *ours]


def list_effect_streams(settings: Settings) -> frozenset[str]:
    """Streams whose messages have deterministic ids, so that the same effect is stored once."""
    streams = settings.streams
    return frozenset(
        (streams.assignments.name, streams.usage.name, streams.held.name, streams.dlq.name)
    )


# -- How long a stream of effects must know the ids of its messages, once the durables before it
# may hand messages out again.
#
# A message that is handled again publishes the effects that it published before, with the same ids.
# Its stream drops them while it knows the ids. A server reads them from the stored messages when it
# starts, as far back as the stream's duplicate window reaches *then*; it reads none when a snapshot
# is restored or a mirror is promoted, and none when the window is widened (nats-server 2.15.1). So
# the window is widened first, and the servers are started again after that.


SLACK = timedelta(hours=1)  # for the restart, and for what waits to be handled again


def widen(config: Json, since: datetime, now: datetime) -> Json:
    """The configuration, marked, with a window from one declared window before `since` to an hour
    from now; at most `max_age`.
    """
    declared = int(config.get("duplicate_window") or 0)
    needed = declared + int((now - since + SLACK).total_seconds()) * NANOS_PER_S
    metadata = {
        **(config.get("metadata") or {}),
        WIDENED_WINDOW: since.isoformat(timespec="seconds"),
    }
    return {
        **config,
        "duplicate_window": min(needed, config.get("max_age") or needed),
        "metadata": metadata,
    }
