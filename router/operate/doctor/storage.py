"""Do the streams promise more than the servers, or the account, have? A stream reserves its
`max_bytes` once for each copy. And when is it full?

    account   its limit counts every copy; the server enforces it
    servers   a cluster does not compare with them while streams are made or get copies: it reserves
              more than `max_file_store`,
              and a disk that is full stops every stream of its server

Placement is the cluster's: a stream with as many copies as there are servers is on each of them, of
any other only the sum is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from router.operate.doctor.facts import (
    Facts,
    Finding,
    RaftGroup,
    ServerStorage,
    StreamFacts,
    fail,
    ok,
    share,
    size,
    span,
    warn,
)

# -- How long does a stream last, and when is it full? Computed from the rate of its newest tenth,
# or of all its messages.
#
# A full stream that discards new messages refuses them, and their publishers wait. One that
# discards old messages loses the oldest, read or not. A stream whose age limit frees space faster
# than it fills is never full; nor is one whose messages are removed when they are finished, as
# long as workers settle them.


HISTORY_S = 60.0  # a rate of less than a minute is not reliable
DAY_S = 24 * 3600.0
SOON_S = DAY_S
NEARLY_FULL = 0.9
FULL = 0.98


def hours_until_full(facts: Facts) -> Iterator[Finding]:
    for stream in facts.streams:
        yield _check_room(stream, is_cleaned=stream.spec.name == facts.cleaned_stream)


def bytes_per_second(stream: StreamFacts) -> float | None:
    """The present rate of incoming bytes; None if the history is too short."""
    if stream.last_at is None or not stream.messages:
        return _bytes_held_per_second(stream)
    begin, begin_at = stream.recent_sequence, stream.recent_at
    if begin is None or begin_at is None or stream.last_at - begin_at < HISTORY_S:
        return _bytes_held_per_second(stream)
    return (
        stream.size / stream.messages * (stream.last_sequence - begin) / (stream.last_at - begin_at)
    )


def _bytes_held_per_second(stream: StreamFacts) -> float | None:
    if (
        stream.first_at is None
        or stream.last_at is None
        or stream.last_at - stream.first_at < HISTORY_S
    ):
        return None
    return stream.size / (stream.last_at - stream.first_at)


def seconds_until_full(stream: StreamFacts) -> float | None:
    """Seconds at the present rate; None if it never fills, or the history is too short."""
    rate = bytes_per_second(stream)
    if (
        stream.max_bytes <= 0
        or not rate
        or (stream.max_age and rate * stream.max_age <= stream.max_bytes)
    ):
        return None
    return max(0.0, stream.max_bytes - stream.size) / rate


def _check_room(stream: StreamFacts, *, is_cleaned: bool) -> Finding:
    check, rate = f"room in {stream.spec.name}", bytes_per_second(stream)
    if stream.max_bytes <= 0:
        return ok(
            check,
            "no limit but the disk's"
            + (f", {size(rate * DAY_S)} a day at this rate" if rate else ""),
        )
    filled, left = (
        stream.size / stream.max_bytes,
        None if is_cleaned else seconds_until_full(stream),
    )
    found = f"{share(filled)} full{_describe_duration(stream, rate, is_cleaned=is_cleaned)}"
    if left is not None:
        found += f", full in {span(left)}"
    remedy = f"raise its max_bytes, or remove messages: a full stream {_consequence(stream)}"
    if filled >= FULL and stream.discard == "new":
        return fail(check, found, remedy)
    if filled >= NEARLY_FULL or (left is not None and left < SOON_S):
        return warn(check, found, remedy)
    return ok(check, found)


def _describe_duration(stream: StreamFacts, rate: float | None, *, is_cleaned: bool) -> str:
    """How long it lasts at this rate, from empty to full, or to its age limit."""
    if not rate:
        return ""
    seconds = stream.max_bytes / rate
    if is_cleaned:
        return f", holds {span(seconds)} of messages at this rate; finished ones are removed"
    if stream.max_age and seconds >= stream.max_age:
        return f", holds all {span(stream.max_age)} that it keeps at this rate"
    return f", lasts {span(seconds)} at this rate"


def _consequence(stream: StreamFacts) -> str:
    return (
        "refuses new messages"
        if stream.discard == "new"
        else "drops its oldest messages, read or not"
    )


# -- Do the streams promise more than the servers, or the account, have? A stream reserves its
# `max_bytes` once for each copy.


LESS_OR_MORE = (
    "lower streams.*.max_bytes, set fewer replicas, or give every server more (`jetstream { "
    "max_file_store }`)"
)
LESS_OR_MORE_OF_ACCOUNT = (
    "lower streams.*.max_bytes, set fewer replicas, or raise the account's limit (`jetstream { "
    "max_file }`)"
)
READ_THEM = "--monitor URL of each server shows it; compare it with max_file_store"


class Reservation(Struct, frozen=True):
    """A declared stream, and what it reserves already: `had` bytes on each server of `group` (None:
    on the only server).
    """

    stream: str
    max_bytes: int
    copies: int
    had: int
    had_copies: int
    group: RaftGroup | None

    def had_on(self, server: str) -> int:
        return self.had if self.group is None or server in self.group.servers else 0


def storage(facts: Facts) -> Iterator[Finding]:
    yield from _account(facts)
    for server in facts.server.storage:
        yield _server(server)
    for cause in facts.server.unread:
        yield warn(
            "storage of a server",
            cause,
            "start that server if it is down; else correct nats.monitor or --monitor",
        )
    if facts.server.is_clustered and not facts.server.storage:
        found = f"the servers' room cannot be read from this account; {describe_need(facts)}"
        yield warn("storage", found, READ_THEM)
    elif not facts.server.is_clustered and not facts.server.storage:
        yield ok("storage", describe_need(facts))
    for shortage in find_shortages(facts):
        yield warn(
            "storage of the declared streams",
            f"`router topology apply` finds no room: {shortage}",
            LESS_OR_MORE,
        )


def account_limits(facts: Facts) -> Iterator[Finding]:
    """Streams and consumers that the account may still make; the server refuses further ones."""
    for count in facts.server.account_counts:
        if count.most < 0:
            continue
        found = f"{count.used} of {count.most} {count.kind}"
        raise_it = (
            f"raise the account's limit (`jetstream {{ max_{count.kind} }}`), or remove what "
            "is no longer needed"
        )
        if count.used >= count.most:
            yield fail(
                f"limit of {count.kind}",
                f"{found}: the server makes no more for this account",
                raise_it,
            )
        elif count.used > count.most * NEARLY_FULL:
            yield warn(f"limit of {count.kind}", found, raise_it)
        else:
            yield ok(f"limit of {count.kind}", found)


def describe_need(facts: Facts) -> str:
    """What the declared streams reserve, in words."""
    reservations = list_reservations(facts)
    total = sum(reservation.max_bytes * reservation.copies for reservation in reservations)
    copies = max((reservation.copies for reservation in reservations), default=1)
    counted = f", each of up to {copies} copies counted" if copies > 1 else ""
    return (
        f"the declared streams may grow to {size(total)} of messages{counted}; those without "
        "max_bytes come on top"
    )


def find_shortages(facts: Facts) -> list[str]:
    """Where the declared streams do not fit, with figures; empty if they do, or if no limit is
    known.
    """
    changed = [
        reservation
        for reservation in list_reservations(facts)
        if (reservation.max_bytes, reservation.copies) != (reservation.had, reservation.had_copies)
    ]
    if not changed:
        return []
    return [
        *_shortage_of_account(facts, changed),
        *_shortages_of_servers(facts.server.storage, changed),
    ]


def list_reservations(facts: Facts) -> list[Reservation]:
    """Of the declared streams that could be read, or do not exist yet. One without a limit reserves
    nothing.
    """
    there = {stream.spec.name: stream for stream in facts.streams}
    reservations = []
    for spec in facts.declared:
        if (stream := there.get(spec.name)) is None:
            reservations.append(
                Reservation(spec.name, max(0, spec.max_bytes), spec.replicas, 0, 0, RaftGroup())
            )
        else:
            reservations.append(
                Reservation(
                    spec.name,
                    max(0, spec.max_bytes),
                    spec.replicas,
                    max(0, stream.max_bytes),
                    stream.replicas,
                    stream.group,
                )
            )
    return reservations


def _account(facts: Facts) -> Iterator[Finding]:
    limit = facts.server.account_limit
    if limit <= 0:
        return
    reserved = _reserved_by_account(facts)
    found = f"its streams reserve {size(reserved)} of {size(limit)}, copies counted"
    if reserved > limit:
        yield warn("storage of the account", found, LESS_OR_MORE_OF_ACCOUNT)
    else:
        yield ok("storage of the account", found)


def _reserved_by_account(facts: Facts) -> int:
    """At least: the copies of streams that are not the router's are not known, and each is counted
    once.
    """
    reservations = list_reservations(facts)
    others = max(
        0, facts.server.account_reserved - sum(reservation.had for reservation in reservations)
    )
    return others + sum(reservation.had * reservation.had_copies for reservation in reservations)


def _shortage_of_account(facts: Facts, changed: Sequence[Reservation]) -> Iterator[str]:
    limit, more = (
        facts.server.account_limit,
        sum(
            reservation.max_bytes * reservation.copies - reservation.had * reservation.had_copies
            for reservation in changed
        ),
    )
    reserved = _reserved_by_account(facts)
    if 0 < limit < reserved + more:
        yield (
            f"the account may reserve {size(limit)}, its streams would reserve "
            f"{size(reserved + more)}, copies counted"
        )


def _shortages_of_servers(
    servers: Sequence[ServerStorage], changed: Sequence[Reservation]
) -> Iterator[str]:
    for server in servers:
        on_each = [
            reservation for reservation in changed if reservation.copies >= server.cluster_size
        ]
        needed = server.reserved + sum(
            reservation.max_bytes - reservation.had_on(server.name) for reservation in on_each
        )
        if needed > server.limit:
            yield (
                f"server {server.name} holds {size(server.limit)}, the streams there would "
                f"reserve {size(needed)}"
            )
            return
    if servers:
        yield from _shortage_of_cluster(servers, changed)


def _shortage_of_cluster(
    servers: Sequence[ServerStorage], changed: Sequence[Reservation]
) -> Iterator[str]:
    """Servers that were not read are taken to be as those that were."""
    part = max(server.cluster_size for server in servers) / len(servers)
    limit, reserved = (
        round(part * sum(figures))
        for figures in ([s.limit for s in servers], [s.reserved for s in servers])
    )
    needed = reserved + sum(
        reservation.max_bytes * reservation.copies - reservation.had * reservation.had_copies
        for reservation in changed
    )
    if needed > limit:
        yield (
            f"the servers hold {size(limit)} together, the streams would reserve "
            f"{size(needed)}, copies counted"
        )


def _server(server: ServerStorage) -> Finding:
    check = f"storage of {server.name}"
    used = f"{size(server.used)} used"
    if server.reserved > server.limit:
        found = (
            f"streams reserve {size(server.reserved)} of {size(server.limit)} ({used}): they "
            "cannot all grow to their limits"
        )
        return warn(check, found, LESS_OR_MORE)
    found = f"streams reserve {size(server.reserved)} of {size(server.limit)}, {used}"
    if server.limit and server.used >= NEARLY_FULL * server.limit:
        return warn(check, f"{found} ({share(server.used / server.limit)})", LESS_OR_MORE)
    return ok(check, found)
