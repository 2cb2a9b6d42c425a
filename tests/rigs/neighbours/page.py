"""The page: what was measured, as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.rigs.neighbours.asking import PATIENCE_S
from tests.rigs.neighbours.figures import (
    ALLOWED_RATIO,
    FLOOR_MS,
    NORMAL_MS,
    NORMAL_RATIO,
    Experience,
)
from tests.rigs.neighbours.result import NICE, RATE, Results, RowResult, TreeResults
from tests.rigs.neighbours.rows import BY_NAME, Row
from tests.rigs.neighbours.verdicts import NO, YES, judge, overload_checks

WHOLE_MS = PATIENCE_S * 1000  # no request is waited for any longer
SERIES = 7  # moments of an overload's memory that are shown


def render_page(run: Results) -> str:
    facts = "\n".join(f"- {name}: {value}" for name, value in run.machine.items())
    capacities = "; ".join(
        f"{one.commit}: {one.capacity:,.0f} requests a second" for one in run.trees
    )
    names = list(dict.fromkeys(found.row for one in run.trees for found in one.found))
    return f"""# Beside a bad neighbour

Made by `python -m tests.rigs.neighbours`; nothing here was written by hand.

{facts}
- capacity, 256 in flight: {capacities}
- each row: {run.seconds:g} s alone, {run.seconds:g} s beside the neighbour (`overload`: four times as long), then until all is normal again

{_matrix(run, names)}
{HOW_TO_READ}
{_broken(run)}
## What the neighbour did

{_activities(run, names)}
*Overloaded after*: from the neighbour's first request to its first answer `overloaded`; p50 and p99: from the sending of a request to
that answer. *Late*: an answer after 5 s, when its asker has gone. *Sent*: what could be sent; in brackets, as a multiple of the capacity,
the larger one where there are two: both trees are sent the same.
*Quiet sent late*: p99 of how late the quiet tenant's own process sent, in the whole row: what it waited for a core is in its latencies.
{_overloads(run)}"""


HOW_TO_READ = f"""*Alone* and *beside*: p50 and p99 in milliseconds of the quiet tenant, {RATE:g} requests a second, an open loop: a
latency counts from the moment that the request was due. *Lost*: not decided within 5 s, of so many; errors are counted as lost and told
by their code. *Normal again*: seconds from the neighbour's end to the first second from which on each second had p99 ≤ {NORMAL_RATIO:g} ×
that of alone, or {NORMAL_MS:g} ms, whichever is more, and nothing lost; *silent*: not one
answer in the last 5 s of looking. *Memory*: the most that the router held, MiB, and what it held before.

*Kept*: nothing lost, and p99 at most {ALLOWED_RATIO:g} × that of alone, or {FLOOR_MS:g} ms: a request is handed over four times, and on two
cores that are busy a hand-over waits for the next tick of the kernel's scheduler, 4 ms; two of them and the request itself are below that.
The *noise* rows send a neighbour's traffic past the router, to a subject that it does not know: what they show is the machine, which
broker, generator, router and quiet tenant share, and no router can do better. *A bare program* (`--bare`): stock nats-py in the
router's place answers each request at once, whatever it asks. *As the machine*: nothing lost, and p99 at most {ALLOWED_RATIO:g} × that
of the noise row of the same traffic. Generators, and the services that a neighbour brings, run at a lower priority (nice {NICE}), so
that they take as little as possible from the router and the server; the quiet tenant's process and its extension do not. Each row has
a router and a server of its own, with default settings: ports are free ones, and directories its own.
"""


# -- the matrix


def _matrix(run: Results, names: Iterable[str]) -> str:
    lines = [
        (
            "| neighbour | alone p50 | p99 | lost | beside p50 | p99 | lost | p99 ratio | "
            "normal again | memory | kept |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for name in names:
        for place, measured in enumerate(run.trees):
            lines += [
                _line(place, measured, found) for found in measured.found if found.row == name
            ]
    return "\n".join(lines) + "\n"


def _line(place: int, measured: TreeResults, found: RowResult) -> str:
    title = found.row if place == 0 else f"· {measured.commit}"
    cells = (
        *_cells_of(found.alone),
        *_cells_of(found.beside),
        _ratio(found),
        _again(found),
        _memory(found),
        judge(found, measured.found),
    )
    return f"| {title} | {' | '.join(cells)} |"


def _cells_of(one: Experience) -> tuple[str, str, str]:
    lost = f"{one.lost} of {one.asked}" if one.lost else "0"
    told = ", ".join(f"{count} {code}" for code, count in sorted(one.refused.items()))
    return _ms(one.p50_ms), _ms(one.p99_ms), f"{lost} ({told})" if told else lost


def _ms(value: float) -> str:
    return f"> {WHOLE_MS:.0f}" if value >= WHOLE_MS else f"{value:.1f}"


def _ratio(found: RowResult) -> str:
    if not found.alone.p99_ms:
        return ""
    more = "> " if found.beside.p99_ms >= WHOLE_MS else ""
    return f"{more}{found.beside.p99_ms / found.alone.p99_ms:.1f}"


def _again(found: RowResult) -> str:
    if found.normal_again_s is not None:
        return f"{found.normal_again_s:.0f} s"
    silent = ", silent" if found.is_silent else ""
    return f"not in {found.looked_s:.0f} s{silent}" if found.is_running else "the router ended"


def _memory(found: RowResult) -> str:
    return f"{found.resident_mib:.0f} ({found.resident_before_mib:.0f})"


# -- the neighbours


def _activities(run: Results, names: Iterable[str]) -> str:
    lines = [
        (
            "| neighbour | does | sent | answers | overloaded after, p50, p99, ms | router, "
            "server: cores | quiet sent late, ms |"
        ),
        "| --- | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for name in names:
        for place, measured in enumerate(run.trees):
            lines += [
                _activity(place, measured, found, BY_NAME[name])
                for found in measured.found
                if found.row == name
            ]
    return "\n".join(lines) + "\n"


def _activity(place: int, measured: TreeResults, found: RowResult, row: Row) -> str:
    activity = found.neighbour
    title, does = (row.name, row.does) if place == 0 else (f"· {measured.commit}", "")
    sent = f"{activity.get('sent', 0):,}" + (
        f" ({found.times:.1f} ×)" if found.times is not None else ""
    )
    cores = f"{found.router_cpu:.2f}, {found.server_cpu:.2f}"
    late = f"{found.quiet.get('late_p99_ms', 0.0):.1f}"
    return (
        f"| {title} | {does} | {sent} | {_answers(activity, row)} | {_overloaded(activity)} | "
        f"{cores} | {late} |"
    )


def _answers(activity: dict[str, Any], row: Row) -> str:
    counts = dict(activity.get("answers", {}))
    told = [f"{count:,} {code}" for code, count in sorted(counts.items(), key=lambda one: -one[1])]
    if (
        activity.get("is_answered")
        and not row.is_noise
        and "put" not in counts
        and "chunk" not in counts
    ):
        told.append(f"{max(0, activity['sent'] - sum(counts.values())):,} none")
    if activity.get("overloaded_without_retry"):
        told.append(f"{activity['overloaded_without_retry']:,} overloaded without retry_after_ms")
    if activity.get("providers") is not None:
        told.append(f"{activity['providers']:,} providers, {activity['bytes']:,} bytes")
    if activity.get("connections_lost"):
        told.append(f"its connection closed {activity['connections_lost']} times")
    complaints = [
        *activity.get("complaints", {}),
        *([activity["complaint"]] if activity.get("complaint") else []),
    ]
    return "; ".join(
        (*told, *(text.replace("|", "/").replace("\n", " ")[:120] for text in complaints[:2]))
    )


def _overloaded(activity: dict[str, Any]) -> str:
    if "first_overloaded_ms" not in activity:
        return "never"
    return ", ".join(
        f"{activity[name]:.0f}"
        for name in ("first_overloaded_ms", "overloaded_p50_ms", "overloaded_p99_ms")
    )


def _broken(run: Results) -> str:
    told = [
        f"- {name}, {one.commit}: {why}" for one in run.trees for name, why in one.broken.items()
    ]
    return "\nWithout figures:\n\n" + "\n".join(told) + "\n" if told else ""


# -- overload


def _overloads(run: Results) -> str:
    found = [(one, row) for one in run.trees for row in one.found if row.row == "overload"]
    return (
        "".join(("\n## Overload\n", *(_overload(measured, row) for measured, row in found)))
        if found
        else ""
    )


def _overload(measured: TreeResults, found: RowResult) -> str:
    during = [sample for sample in found.samples if sample.at_s <= found.seconds]
    chosen = during[:: max(1, len(during) // (SERIES - 1))]
    series = ", ".join(f"{sample.resident_mib:.0f} at {sample.at_s:.0f} s" for sample in chosen)
    checks = overload_checks(found)
    told = "; ".join(f"{name}: {YES if is_kept else NO}" for name, is_kept in checks.items())
    after = max(
        (sample.resident_mib for sample in found.samples if sample.at_s > found.seconds),
        default=0.0,
    )
    return f"""
{measured.commit}, {found.seconds:g} s at {found.times or 0:.1f} × the capacity:

- of the flood: {_shares(found.neighbour)}
- memory of the router, MiB: {series}; the most afterwards {after:.0f}
- {told}
"""


def _shares(activity: dict[str, Any]) -> str:
    counts, sent = dict(activity.get("answers", {})), max(1, activity.get("sent", 0))
    counts["unanswered"] = max(0, sent - sum(counts.values()))
    return ", ".join(f"{100 * count / sent:.1f} % {code}" for code, count in counts.items())
