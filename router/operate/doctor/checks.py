"""The checks of the doctor. Pure: the same facts give the same findings.

    partitions       has each partition of the decide subject a router, and another that takes over?
    backlog          are the messages consumed, and can a stream drop some of them before they are?
    all others       the server, the topology, the streams, dead letters, the header contract

`CHECKS` at the end names all of them, with those of other modules, in the order in which an
operator asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from router.delivery.wire.topology import (
    IRREVERSIBLE,
    MAY_BE_TORN,
    MISSING,
    PAUSED,
    UNBATCHED,
    WIDENED,
    Difference,
)
from router.operate.doctor.cluster import followers, leaders, lost_server, quorum
from router.operate.doctor.facts import (
    ConsumerFacts,
    Facts,
    Finding,
    PartitionFacts,
    StreamFacts,
    fail,
    ok,
    share,
    span,
    warn,
)
from router.operate.doctor.storage import NEARLY_FULL, account_limits, hours_until_full, storage

# -- Partitions of the decide subject: each has a router, and another that takes it when the
# first one dies.

LEASES_MISSED = 2  # a lease older than so many of its spans is not renewed
STANDBY_S = 45.0  # a standby says every 15 s that it is there


def partitions(facts: Facts) -> Iterator[Finding]:
    for partition in facts.partitions:
        yield _examine_partition(partition, facts.lease)


def _examine_partition(partition: PartitionFacts, lease_s: float) -> Finding:
    check, name = f"partition {partition.name}", partition.name
    is_renewed = partition.lease_age is not None and partition.lease_age < LEASES_MISSED * lease_s
    if not is_renewed and not partition.waiting_pulls:
        remedy = (
            f"start its router: ROUTER_DECIDE__PARTITION={name}; or let another take it: "
            f"ROUTER_DECIDE__STANDBY={name}"
        )
        return fail(
            check,
            f"no router takes its requests, {partition.pending} wait{_last_holder(partition)}",
            remedy,
        )
    if is_renewed and not partition.is_owned:
        return warn(
            check,
            f"{partition.holder} has taken it over: its own router is away",
            f"start its router: ROUTER_DECIDE__PARTITION={name}",
        )
    if partition.waiting_pulls < 2 and not _has_standby(partition):
        remedy = (
            f"give another router ROUTER_DECIDE__STANDBY={name}, or start a second one with "
            f"ROUTER_DECIDE__PARTITION={name}"
        )
        return warn(
            check,
            (
                f"{partition.holder or 'one router'} takes its requests, and none stands by: "
                "they wait when it dies"
            ),
            remedy,
        )
    return ok(
        check,
        (
            f"{partition.holder or 'a router'} takes its requests, {partition.pending} wait, "
            "another router can take over"
        ),
    )


def _has_standby(partition: PartitionFacts) -> bool:
    return partition.standby_age is not None and partition.standby_age < STANDBY_S


def _last_holder(partition: PartitionFacts) -> str:
    if partition.lease_age is None or not partition.holder:
        return ""  # its last router ended and gave the lease up
    return f"; {partition.holder} renewed its lease {span(partition.lease_age)} ago"


# -- The backlog of each consumer, and its distance.
#
# A stream with an age limit, or one that discards old messages when it is full, drops messages
# whether or not they were consumed. The distance is how far the oldest unacknowledged message
# still is from that edge.

SLOW_AGE_S = 10.0
STUCK_AGE_S = 60.0
HALF_WAY = 0.5
AT_THE_EDGE = 0.9


def consumer_lag(facts: Facts) -> Iterator[Finding]:
    for consumer in facts.consumers:
        yield _lag(consumer, facts.now)


def consumer_distance(facts: Facts) -> Iterator[Finding]:
    streams = {stream.spec.name: stream for stream in facts.streams}
    for consumer in facts.consumers:
        stream = streams.get(consumer.spec.stream)
        if stream is not None:
            yield _distance(consumer, stream, facts.now)


def _lag(consumer: ConsumerFacts, now: float) -> Finding:
    check, age = f"consumer {consumer.spec.durable}", _age(consumer, now)
    found = (
        f"{consumer.pending} waiting, {consumer.unacknowledged} in hand, "
        f"{consumer.waiting_pulls} pulls open"
    )
    if age is not None:
        found += f", the oldest {span(age)} old"
    if consumer.held_back is not None:
        paused, _, remedy = consumer.held_back.partition(": ")
        return fail(check, f"{found}: {paused}", remedy)
    if consumer.waiting_pulls == 0 and consumer.pending:
        return fail(
            check,
            f"{found}: no process pulls",
            "start a router: `router serve`; if one runs, look at its /readyz",
        )
    if consumer.waiting_pulls == 0 and not consumer.unacknowledged:
        return warn(check, f"{found}: no process pulls", "start a router: `router serve`")
    if age is not None and age > STUCK_AGE_S:
        return fail(
            check,
            found,
            "look at /readyz and the logs for what holds up the consumer; then add routers",
        )
    if age is not None and age > SLOW_AGE_S:
        return warn(check, found, "add routers, or look for messages that are retried")
    return ok(check, found)


def _distance(consumer: ConsumerFacts, stream: StreamFacts, now: float) -> Finding:
    check, age = f"distance {consumer.spec.durable}", _age(consumer, now)
    if dropped := _count_dropped(consumer, stream):
        remedy = (
            f"raise max_bytes or max_age of {stream.spec.name}, and add routers; the senders "
            "must publish them again"
        )
        return fail(check, f"{dropped} messages were dropped before they were read", remedy)
    if age is None:
        return ok(check, "nothing waits, so nothing can be dropped unread")
    remedy = (
        f"consume the backlog: add routers; or raise max_age and max_bytes of {stream.spec.name}"
    )
    travelled = age / stream.max_age if stream.max_age else 0.0
    found = (
        f"the oldest has used {share(travelled)} of the {span(stream.max_age)} it may wait"
        if stream.max_age
        else "no age limit"
    )
    if travelled >= AT_THE_EDGE or _is_dropped_next(consumer, stream):
        return fail(check, f"{found}; it is dropped next", remedy)
    if travelled >= HALF_WAY:
        return warn(check, found, remedy)
    return ok(check, found)


def _count_dropped(consumer: ConsumerFacts, stream: StreamFacts) -> int:
    """Messages between the consumer's position and the first one of the stream: dropped unread.
    Counted until it consumes again.
    """
    reached = consumer.delivered_sequence
    return max(0, stream.first_sequence - 1 - reached) if reached is not None else 0


def _is_dropped_next(consumer: ConsumerFacts, stream: StreamFacts) -> bool:
    """Whether the stream is nearly full, drops its oldest messages, and the waiting one is among
    the oldest tenth.
    """
    if (
        stream.discard != "old"
        or stream.max_bytes <= 0
        or stream.size < NEARLY_FULL * stream.max_bytes
    ):
        return False
    if consumer.oldest_sequence is None:
        return False
    return consumer.oldest_sequence - stream.first_sequence <= 0.1 * (
        stream.last_sequence - stream.first_sequence
    )


def _age(consumer: ConsumerFacts, now: float) -> float | None:
    return max(0.0, now - consumer.oldest_at) if consumer.oldest_at is not None else None


# -- All others.

_TURN_ON = "add `jetstream {}` to the server's configuration, or enable the account"
OLDEST_SERVER = (2, 11, 0)
LONGEST_SILENCE_S = 10.0  # of another place, which gives a sign every second
Check = Callable[[Facts], Iterator[Finding]]


def examine(facts: Facts) -> list[Finding]:
    """All findings; without JetStream, or without a quorum, only those of the first checks."""
    checks = CHECKS if facts.server.has_jetstream and facts.server.has_quorum else FIRST_CHECKS
    return [finding for check in checks for finding in check(facts)]


def server_version(facts: Facts) -> Iterator[Finding]:
    """Atomic creation, batched reads and keys with a TTL need 2.11."""
    version = ".".join(map(str, facts.server.version))
    if facts.server.version < OLDEST_SERVER:
        yield fail("server version", version, "run nats-server 2.11 or newer")
    else:
        yield ok("server version", version)


def jetstream_on(facts: Facts) -> Iterator[Finding]:
    if facts.server.has_jetstream:
        yield ok("jetstream", "on")
    else:
        yield fail(
            "jetstream",
            facts.server.why_not.partition(": ")[0] or "off, or not for this account",
            _TURN_ON,
        )


def permissions(facts: Facts) -> Iterator[Finding]:
    """A stream or consumer that this user may not read is neither missing nor well."""
    if not facts.denied:
        yield ok("permissions", "everything could be read")
        return
    more = f" (and {len(facts.denied) - 1} more)" if len(facts.denied) > 1 else ""
    what, _, remedy = facts.denied[0].partition(": ")
    yield fail("permissions", f"{what}{more}", f"{remedy}; or run it as an operator's user")


def payload_limit(facts: Facts) -> Iterator[Finding]:
    """A request above the server's limit closes the sender's connection, and gets no answer."""
    limit = f"{facts.server.max_payload} bytes"
    if facts.server.max_payload <= facts.max_request:
        yield warn(
            "max_payload",
            f"{limit}, and requests may have {facts.max_request}",
            (
                "set the server's max_payload to twice max_payload_bytes: an oversized request "
                "is then answered, not cut off"
            ),
        )
    else:
        yield ok("max_payload", limit)


def sync_mode(facts: Facts) -> Iterator[Finding]:
    """The server sends a publish ack before the disk has the message: a power cut loses what was
    not flushed.

    Copies help where one server fails. They do not where a quorum loses power together.
    """
    sync, is_copied = facts.server.sync, any(stream.replicas > 1 for stream in facts.streams)
    remedy = (
        "set `jetstream { sync_interval: always }` (what it costs, and what copies cost: "
        "docs/explanation/sizing.md#durable)"
    )
    if sync.is_always:
        yield ok("sync mode", "always: an acknowledged message is on the disk")
    elif sync.interval is None:
        found = "cannot be read from this account (the server's default is every 2 minutes)"
        yield warn("sync mode", found, f"--monitor URL or a system account shows it; {remedy}")
    elif is_copied:
        found = (
            f"every {span(sync.interval)}, and streams are copied: several that lose power at "
            "once lose acknowledged messages"
        )
        yield warn(
            "sync mode", found, f"{remedy} on every server (https://jepsen.io/analyses/nats-2.12.1)"
        )
    else:
        yield warn(
            "sync mode",
            (
                f"every {span(sync.interval)}: a power cut may lose messages acknowledged "
                "since the last flush"
            ),
            remedy,
        )


def topology(facts: Facts) -> Iterator[Finding]:
    for difference in facts.differences:
        if difference.state == MISSING:
            yield fail("topology", str(difference), _name_remedy(difference, facts))
        elif difference.state == WIDENED:
            yield warn(
                "topology",
                str(difference),
                (
                    "once the backlog is handled, run `router topology apply` "
                    "(docs/how-to/two-places.md)"
                ),
            )
        elif difference.state == UNBATCHED:
            yield warn(
                "topology",
                str(difference),
                "run `router topology apply`: with `sync_interval: always` its messages are then "
                "stored many at once (docs/explanation/sizing.md#durable)",
            )
        elif difference.state == IRREVERSIBLE:
            yield fail(
                "topology",
                str(difference),
                f"`router backup DIR`, `nats stream rm {difference.name}`, `router topology apply`",
            )
        elif difference.state != PAUSED:  # the check of that consumer tells
            yield fail(
                "topology", str(difference), "change the setting, or run `router topology apply`"
            )
    if not facts.differences and not facts.denied:
        yield ok(
            "topology",
            f"streams {len(facts.streams)}, consumers {len(facts.consumers)}: as declared",
        )


def _name_remedy(difference: Difference, facts: Facts) -> str:
    """A durable that is not beside messages may be one that a power cut tore: the server then
    tells what it tells of one that was never made.
    """
    remedy = "start a router with topology = create, or run `router topology apply`"
    stream, _, durable = difference.name.partition("/")
    had_messages = any(held.spec.name == stream and held.last_sequence for held in facts.streams)
    return f"{remedy}{MAY_BE_TORN if durable and had_messages else ''}"


def replicas(facts: Facts) -> Iterator[Finding]:
    single = [stream.spec.name for stream in facts.streams if stream.replicas == 1]
    if facts.server.is_clustered and single:
        yield warn(
            "replicas",
            f"one copy only: {', '.join(single)}",
            "set ROUTER_REPLICAS=3, and run `router topology apply`",
        )
    elif facts.streams:
        found = (
            "one server, one copy of each stream"
            if single
            else f"{min(stream.replicas for stream in facts.streams)} copies or more"
        )
        yield ok("replicas", found)


def dedupe_windows(facts: Facts) -> Iterator[Finding]:
    """A shorter window than declared stores duplicates; a longer one drops a client's retry
    (docs/reference/contracts.md#decide-window).
    """
    # `topology` tells of those
    widened = {difference.name for difference in facts.differences if difference.state == WIDENED}
    for stream in facts.streams:
        if stream.spec.name in widened:
            continue
        check, declared = f"dedupe window {stream.spec.name}", _window(stream)
        if abs(stream.duplicate_window - declared) < 0.001:
            yield ok(check, span(stream.duplicate_window))
        else:
            yield warn(
                check,
                f"{span(stream.duplicate_window)}, declared {span(declared)}",
                "run `router topology apply`",
            )


def other_places(facts: Facts) -> Iterator[Finding]:
    """What is taken in from another place comes again by itself when the connection is back
    (docs/how-to/two-places.md#leaf).
    """
    for stream in facts.streams:
        for origin in stream.origins:
            check = f"{origin.name} of {origin.place or 'this place'} in {stream.spec.name}"
            if origin.silence is not None and origin.silence <= LONGEST_SILENCE_S:
                yield ok(check, "connected")
            else:
                found = (
                    "nothing heard of it yet"
                    if origin.silence is None
                    else f"nothing heard for {span(origin.silence)}"
                )
                yield warn(
                    check,
                    found,
                    "look at the leaf node connection; what was stored there meanwhile follows",
                )


def dead_letters(facts: Facts) -> Iterator[Finding]:
    for stream in facts.streams:
        if stream.spec.name == facts.dead_letters:
            if stream.messages:
                yield warn("dead letters", str(stream.messages), "read them: `router dlq list`")
            else:
                yield ok("dead letters", "none")


def contract(facts: Facts) -> Iterator[Finding]:
    """Messages that violate the header contract are handled all the same; their sender should hear
    of it.
    """
    broken = facts.violations
    if broken is None:
        return
    if not broken.messages:
        yield ok("header contract", "no message broke it within the last hour")
        return
    whose = (
        f"{broken.messages} messages of {broken.tenants} "
        f"{'tenant' if broken.tenants == 1 else 'tenants'} broke it within the last hour"
    )
    text = (
        f"{whose}; most of tenant {broken.tenant}: {broken.worst} times {broken.rule} on "
        f"{broken.subject}"
    )
    yield warn(
        "header contract",
        text,
        "see whose they are: `router contract violations --since 1h --by tenant,rule`",
    )


def earlier_buckets(facts: Facts) -> Iterator[Finding]:
    """A bucket of the earlier version costs room, and a process of that version would still count
    in it.
    """
    for bucket in facts.left_over:
        remedy = (
            "end every process of the earlier version, then delete it: `nats stream rm "
            f"KV_{bucket}`"
        )
        yield warn(
            f"left over {bucket}",
            (
                f"bucket {bucket} is of an earlier version: it is not read any more, and may "
                "be deleted"
            ),
            remedy,
        )


def _window(stream: StreamFacts) -> float:
    spec = stream.spec
    return min(spec.duplicate_window, spec.max_age) if spec.max_age else spec.duplicate_window


FIRST_CHECKS: tuple[Check, ...] = (server_version, jetstream_on, quorum)
CHECKS: tuple[Check, ...] = (
    *FIRST_CHECKS,
    permissions,
    payload_limit,
    sync_mode,
    topology,
    replicas,
    leaders,
    followers,
    lost_server,
    storage,
    account_limits,
    dedupe_windows,
    other_places,
    hours_until_full,
    consumer_lag,
    consumer_distance,
    partitions,
    dead_letters,
    contract,
    earlier_buckets,
)
