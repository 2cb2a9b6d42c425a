"""The checks, in the order in which an operator asks. Pure: the same facts give the same findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from router.delivery.wire.topology import IRREVERSIBLE, MISSING, PAUSED, WIDENED
from router.operate.doctor.backlog import consumer_distance, consumer_lag
from router.operate.doctor.capacity import hours_until_full
from router.operate.doctor.cluster import followers, leaders, lost_server, quorum
from router.operate.doctor.facts import Facts, StreamFacts
from router.operate.doctor.finding import Finding, fail, ok, span, warn
from router.operate.doctor.partitions import partitions
from router.operate.doctor.storage import account_limits, storage

_TURN_ON = "add `jetstream {}` to the server's configuration, or enable the account"
OLDEST_SERVER = (2, 11, 0)
LONGEST_SILENCE_S = 10.0  # of another place, which gives a sign every second
Check = Callable[[Facts], Iterator[Finding]]


def examine(facts: Facts) -> list[Finding]:
    """All findings; without JetStream, or without a quorum, only those of the first checks."""
    checks = CHECKS if facts.server.has_jetstream and facts.server.has_quorum else FIRST
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
        yield fail("jetstream", facts.server.why_not.partition(": ")[0] or "off, or not for this account", _TURN_ON)


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
            "set the server's max_payload to twice max_payload_bytes: an oversized request is then answered, not cut off",
        )
    else:
        yield ok("max_payload", limit)


def sync_mode(facts: Facts) -> Iterator[Finding]:
    """The server sends a publish ack before the disk has the message: a power cut loses what was not flushed.

    Copies help where one server fails. They do not where a quorum loses power together.
    """
    sync, is_copied = facts.server.sync, any(stream.replicas > 1 for stream in facts.streams)
    remedy = "set `jetstream { sync_interval: always }`"
    if sync.is_always:
        yield ok("sync mode", "always: an acknowledged message is on the disk")
    elif sync.interval is None:
        found = "cannot be read from this account (the server's default is every 2 minutes)"
        yield warn("sync mode", found, f"--monitor URL or a system account shows it; {remedy}")
    elif is_copied:
        found = f"every {span(sync.interval)}, and streams are copied: several that lose power at once lose acknowledged messages"
        yield warn("sync mode", found, f"{remedy} on every server (https://jepsen.io/analyses/nats-2.12.1)")
    else:
        yield warn("sync mode", f"every {span(sync.interval)}: a power cut may lose messages acknowledged since the last flush", remedy)


def topology(facts: Facts) -> Iterator[Finding]:
    for difference in facts.differences:
        if difference.state == MISSING:
            yield fail("topology", str(difference), "start a router with topology = create, or run `router topology apply`")
        elif difference.state == WIDENED:
            yield warn("topology", str(difference), "once the backlog is handled, run `router topology apply` (docs/how-to/two-places.md)")
        elif difference.state == IRREVERSIBLE:
            yield fail("topology", str(difference), f"`router backup DIR`, `nats stream rm {difference.name}`, `router topology apply`")
        elif difference.state != PAUSED:  # the check of that consumer tells
            yield fail("topology", str(difference), "change the setting, or run `router topology apply`")
    if not facts.differences and not facts.denied:
        yield ok("topology", f"streams {len(facts.streams)}, consumers {len(facts.consumers)}: as declared")


def replicas(facts: Facts) -> Iterator[Finding]:
    single = [stream.spec.name for stream in facts.streams if stream.replicas == 1]
    if facts.server.is_clustered and single:
        yield warn("replicas", f"one copy only: {', '.join(single)}", "set ROUTER_REPLICAS=3, and run `router topology apply`")
    elif facts.streams:
        found = "one server, one copy of each stream" if single else f"{min(stream.replicas for stream in facts.streams)} copies or more"
        yield ok("replicas", found)


def dedupe_windows(facts: Facts) -> Iterator[Finding]:
    """A shorter window than declared stores duplicates; a longer one drops a client's retry (docs/reference/contracts.md#decide-window)."""
    widened = {difference.name for difference in facts.differences if difference.state == WIDENED}  # `topology` tells of those
    for stream in facts.streams:
        if stream.spec.name in widened:
            continue
        check, declared = f"dedupe window {stream.spec.name}", _window(stream)
        if abs(stream.duplicate_window - declared) < 0.001:
            yield ok(check, span(stream.duplicate_window))
        else:
            yield warn(check, f"{span(stream.duplicate_window)}, declared {span(declared)}", "run `router topology apply`")


def other_places(facts: Facts) -> Iterator[Finding]:
    """What is taken in from another place comes again by itself when the connection is back (docs/how-to/two-places.md#leaf)."""
    for stream in facts.streams:
        for origin in stream.origins:
            check = f"{origin.name} of {origin.place or 'this place'} in {stream.spec.name}"
            if origin.silence is not None and origin.silence <= LONGEST_SILENCE_S:
                yield ok(check, "connected")
            else:
                found = "nothing heard of it yet" if origin.silence is None else f"nothing heard for {span(origin.silence)}"
                yield warn(check, found, "look at the leaf node connection; what was stored there meanwhile follows")


def dead_letters(facts: Facts) -> Iterator[Finding]:
    for stream in facts.streams:
        if stream.spec.name == facts.letters:
            if stream.messages:
                yield warn("dead letters", str(stream.messages), "read them: `router dlq list`")
            else:
                yield ok("dead letters", "none")


def contract(facts: Facts) -> Iterator[Finding]:
    """Messages that violate the header contract are handled all the same; their sender should hear of it."""
    found = facts.violations
    if found is None:
        return
    if not found.messages:
        yield ok("header contract", "no message broke it within the last hour")
        return
    whose = f"{found.messages} messages of {found.tenants} {'tenant' if found.tenants == 1 else 'tenants'} broke it within the last hour"
    text = f"{whose}; most of tenant {found.tenant}: {found.worst} times {found.rule} on {found.subject}"
    yield warn("header contract", text, "see whose they are: `router contract violations --since 1h --by tenant,rule`")


def earlier_buckets(facts: Facts) -> Iterator[Finding]:
    """A bucket of the earlier version costs room, and a process of that version would still count in it."""
    for bucket in facts.left_over:
        remedy = f"end every process of the earlier version, then delete it: `nats stream rm KV_{bucket}`"
        yield warn(f"left over {bucket}", f"bucket {bucket} is of an earlier version: it is not read any more, and may be deleted", remedy)


def _window(stream: StreamFacts) -> float:
    spec = stream.spec
    return min(spec.duplicate_window, spec.max_age) if spec.max_age else spec.duplicate_window


FIRST: tuple[Check, ...] = (server_version, jetstream_on, quorum)
CHECKS: tuple[Check, ...] = (
    *FIRST,
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
