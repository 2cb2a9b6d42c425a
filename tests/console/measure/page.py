"""The pages of what was measured."""

from collections.abc import Mapping, Sequence
from statistics import median

from tests.console.measure.memory import FOLLOWERS, MOST_GROWTH, MemoryCourse
from tests.console.measure.pages import FIRST_PAINT_MS, WHOLE_MS, PageTimes

FACTS = ("date", "CPU", "memory", "system", "Python", "nats-server", "chromium", "load")
PAGES_HEAD = f"""# The console with a thousand times its data

`python -m tests.console.measure pages` wrote this: a router and the console as processes of their own, chromium without a window, each page
opened {{rounds}} times and read anew each time. Painted: the browser's first contentful paint; whole: the end of the page's content; both
from the moment the browser began to navigate, the median, and the worst in brackets. **Bold** is later than promised: painted within
{FIRST_PAINT_MS} ms, whole within {WHOLE_MS:,} ms.

"""
MEMORY_HEAD = f"""# The memory of the console under live updating

`python -m tests.console.measure memory` wrote this: {FOLLOWERS} browsers' connections follow the page Now, every page is read by turns, one
each second, a router decides fifty requests a second. Flat: the last quarter holds at most {MOST_GROWTH:.0%} more than the second (the
samples of the page Now fill ten minutes).

"""


def write_pages(machine: Mapping[str, str], stored: Mapping[str, int], rounds: int, times: Sequence[PageTimes]) -> str:
    known = _list_facts(machine) + "".join(
        f"* {name}: {count:,}{' messages' if name.isupper() else ''}\n" for name, count in stored.items()
    )
    head = "\n| page | rows | KiB | painted, ms | whole, ms |\n|---|---:|---:|---:|---:|\n"
    return PAGES_HEAD.format(rounds=rounds) + known + head + "".join(map(_write_row, times))


def write_memory(machine: Mapping[str, str], stored: Mapping[str, int], course: MemoryCourse) -> str:
    known = _list_facts(machine) + "".join(
        f"* {name}: {count:,}{' messages' if name.isupper() else ''}\n" for name, count in stored.items()
    )
    quarters = "".join(f"| {number + 1} | {course.quarter(number):.1f} |\n" for number in range(4))
    verdict = "It is flat." if course.is_flat else "**It is not flat.**"
    seconds = course.held[-1][0]
    work = f"\n{seconds / 60:.0f} minutes, {course.events:,} events, {course.reads:,} pages. {verdict}\n"
    return MEMORY_HEAD + known + work + "\n| quarter | resident, MiB, median |\n|---:|---:|\n" + quarters


def _list_facts(machine: Mapping[str, str]) -> str:
    return "".join(f"* {name}: {machine[name]}\n" for name in FACTS if name in machine)


def _write_row(one: PageTimes) -> str:
    painted, whole = _write_times(one.painted_ms, FIRST_PAINT_MS), _write_times(one.whole_ms, WHOLE_MS)
    return f"| `{one.path}` | {one.rows:,} | {one.bytes / 1024:.0f} | {painted} | {whole} |\n"


def _write_times(times: Sequence[float], most: float) -> str:
    middle = f"{median(times):.0f}" if median(times) <= most else f"**{median(times):.0f}**"
    return f"{middle} ({max(times):.0f})"
