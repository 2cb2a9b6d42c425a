"""The servers of a cluster: who leads, who is behind or offline, and what stops if one more is lost
now.

Every stream and every consumer is a Raft group of its own: it works while more than half of its
copies do. With one copy it stops with its server.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from router.operate.doctor.facts import Facts, Finding, Follower, RaftGroup, fail, ok, warn

NO_QUORUM = (
    "JetStream's cluster has no leader: fewer than half of its servers reach one another; "
    "nothing is stored, everything waits"
)
START_SERVERS = (
    "start the servers that are down, or mend the network between them (port of `cluster`); no "
    "setting of Router is wrong"
)
START_HOLDERS = "start the servers that hold its copies; their logs say why they stopped"
MOST_NAMED = 5


def quorum(facts: Facts) -> Iterator[Finding]:
    """Without a leader of the cluster's own nothing is made, changed or listed."""
    if not facts.server.has_quorum:
        shown = _describe_meta(facts)
        yield fail("quorum", NO_QUORUM + (f" ({shown})" if shown else ""), START_SERVERS)
    elif facts.server.is_clustered:
        yield ok("quorum", _describe_meta(facts) or "the cluster has a leader")


def leaders(facts: Facts) -> Iterator[Finding]:
    groups = _list_groups(facts)
    silent = [
        *facts.without_leader,
        *(name for name, group in groups.items() if group.is_without_leader),
    ]
    if silent:
        yield fail(
            "leaders",
            f"without a leader, so neither read nor written: {_name(silent)}",
            START_HOLDERS,
        )
    led = Counter(group.leader for group in groups.values() if group.leader)
    if led:
        yield ok(
            "leaders", ", ".join(f"{server} leads {count}" for server, count in sorted(led.items()))
        )


def followers(facts: Facts) -> Iterator[Finding]:
    """One finding for each server that is offline or behind; the lag of those that are not."""
    groups = _list_groups(facts)
    by_server: defaultdict[str, list[tuple[str, Follower]]] = defaultdict(list)
    for name, group in groups.items():
        for follower in group.followers:
            by_server[follower.name].append((name, follower))
    late = {
        server: behind
        for server, all_of in by_server.items()
        if (behind := [pair for pair in all_of if not _is_well(pair[1])])
    }
    for server, behind in sorted(late.items()):
        yield _describe_late(server, behind)
    if by_server and not late:
        lag = max(follower.lag for all_of in by_server.values() for _, follower in all_of)
        yield ok("followers", f"{len(by_server)} servers follow, at most {lag} operations behind")


def lost_server(facts: Facts) -> Iterator[Finding]:
    """One finding for each server that works."""
    groups = {name: group for name, group in _list_groups(facts).items() if group.leader}
    for server in sorted({name for group in groups.values() for name in _list_working(group)}):
        yield _describe_loss(server, groups)


def _describe_loss(server: str, groups: Mapping[str, RaftGroup]) -> Finding:
    """What stops if this server is lost now, however it happens: a crash, a restart, its disk."""
    check, held = (
        f"if {server} is lost",
        {name: group for name, group in groups.items() if server in group.servers},
    )
    only = [name for name, group in held.items() if not group.followers]
    stopped = [
        name for name, group in held.items() if group.followers and not _survives(group, server)
    ]
    elected = [
        name
        for name, group in held.items()
        if group.leader == server and name not in (*only, *stopped)
    ]
    if not only and not stopped:
        return ok(
            check,
            (
                f"nothing stops; {len(elected)} of {len(held)} elect another leader, which "
                "takes seconds"
            ),
        )
    found, remedies = [], []
    if only:
        found.append(
            f"{_name(only)} {'stops' if len(only) == 1 else 'stop'} until it is back, and "
            "with its disk what they hold is lost"
        )
        remedies.append("set ROUTER_REPLICAS=3, and run `router topology apply`")
    if stopped:
        found.append(
            f"{_name(stopped)} {'stops' if len(stopped) == 1 else 'stop'}: no majority of "
            "the copies would be left"
        )
        remedies.append("bring back the servers that are offline first")
    return warn(check, "; ".join(found), "; ".join(remedies))


def _survives(group: RaftGroup, lost: str) -> bool:
    return len([name for name in _list_working(group) if name != lost]) > len(group.servers) // 2


def _list_working(group: RaftGroup) -> list[str]:
    return [group.leader, *(follower.name for follower in group.followers if _is_well(follower))]


def _describe_late(server: str, late: Sequence[tuple[str, Follower]]) -> Finding:
    state = "offline" if any(follower.is_offline for _, follower in late) else "offline or behind"
    lag = max(follower.lag for _, follower in late)
    behind = f", up to {lag} operations behind" if lag else ""
    text = (
        f"{state} for {len(late)} streams and consumers{behind}: "
        f"{_name([name for name, _ in late])}"
    )
    return fail(
        f"server {server}",
        text,
        (
            "start it, or mend its network; it catches up by itself. While it is away every "
            "other server is needed"
        ),
    )


def _is_well(follower: Follower) -> bool:
    return follower.is_current and not follower.is_offline


def _list_groups(facts: Facts) -> dict[str, RaftGroup]:
    """Of all streams and consumers that were read, by name."""
    streams = {stream.spec.name: stream.group for stream in facts.streams}
    consumers = {consumer.spec.durable: consumer.group for consumer in facts.consumers}
    return {name: group for name, group in {**streams, **consumers}.items() if group is not None}


def _describe_meta(facts: Facts) -> str:
    """What the monitoring ports show of the cluster; empty if none was read."""
    metas = [
        (server.cluster_size, server.meta)
        for server in facts.server.storage
        if server.meta is not None
    ]
    if not metas:
        return ""
    cluster_size, meta = next(
        (pair for pair in metas if pair[1].leader in {s.name for s in facts.server.storage}),
        metas[0],
    )
    offline = [follower.name for follower in meta.followers if follower.is_offline]
    leader = f"{meta.leader} leads" if meta.leader else "none leads"
    return f"{cluster_size} servers, {leader}" + (
        f", offline: {', '.join(offline)}" if offline else ""
    )


def _name(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
