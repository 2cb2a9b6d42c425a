"""The pages of what was measured."""

from collections.abc import Mapping, Sequence
from statistics import median

from tests.console.measure.memory import FOLLOWERS, LOOK_EVERY_S, MIB, MOST_GROWTH, MemoryCourse
from tests.console.measure.pages import FIRST_PAINT_MS, WHOLE_MS, PageTimes
from tests.console.measure.stage import PAUSE_S

FACTS = ("date", "commit", "CPU", "memory", "system", "Python", "nats-server", "chromium", "load")
PAGES_HEAD = f"""# The console with a thousand times its data

`python -m tests.console.measure pages` wrote this: a router and the console as processes of their own, chromium without a window, each page
opened {{rounds}} times and read anew each time. Painted: the browser's first contentful paint; whole: the end of the page's content; both
from the moment the browser began to navigate, the median, and the worst in brackets. **Bold** is later than promised: painted within
{FIRST_PAINT_MS} ms, whole within {WHOLE_MS:,} ms.

"""
MEMORY_TITLE = "## The memory of the console under live updating"
MEMORY_HEAD = f"""{MEMORY_TITLE}

`python -m tests.console.measure memory` wrote this: {FOLLOWERS} browsers' connections follow the page Now, every page is read by turns, one
each {LOOK_EVERY_S:.0f} s, `/now/work` among them, a router decides {1 / PAUSE_S:.0f} requests a second. Flat: the last quarter holds at
most {MOST_GROWTH:.0%} more than the second (the samples of the page Now fill ten minutes).

"""


def write_pages(
    machine: Mapping[str, str], stored: Mapping[str, int], rounds: int, times: Sequence[PageTimes]
) -> str:
    known = _list_facts(machine) + "".join(
        f"* {name}: {count:,}{' messages' if name.isupper() else ''}\n"
        for name, count in stored.items()
    )
    head = "\n| page | rows | KiB | painted, ms | whole, ms |\n|---|---:|---:|---:|---:|\n"
    return PAGES_HEAD.format(rounds=rounds) + known + head + "".join(map(_write_row, times))


def write_memory(
    machine: Mapping[str, str], stored: Mapping[str, int], course: MemoryCourse
) -> str:
    known = _list_facts(machine) + "".join(
        f"* {name}: {count:,}{' messages' if name.isupper() else ''}\n"
        for name, count in stored.items()
    )
    minutes = [
        minute for minute in (1, 10, 20, 30, 40, 50, 60) if minute * 60 <= course.held[-1][0]
    ]
    rows = "".join(f"| {minute} | {course.find_held(minute):.1f} |\n" for minute in minutes)
    verdict = "It is flat." if course.is_flat else "**It is not flat.**"
    seconds = course.held[-1][0]
    work = (
        f"\n{seconds / 60:.0f} minutes, {course.events:,} events, {course.reads:,} pages. "
        f"{verdict}\n"
    )
    quarters = ", ".join(f"{course.quarter(number):.1f}" for number in range(4))
    slope = f"The second half's slope is {course.slope:+.2f} MiB an hour; quarters: {quarters}.\n"
    first = f"| start | {course.held[0][1] / MIB:.1f} |\n"
    return (
        MEMORY_HEAD
        + known
        + work
        + slope
        + "\n| minute | resident, MiB, median |\n|---:|---:|\n"
        + first
        + rows
    )


def replace_part(page: str, part: str) -> str:
    """One file holds both: the pages, and below them the memory. Each run writes its own part."""
    before, title, after = page.partition(MEMORY_TITLE)
    return (
        f"{before.rstrip()}\n\n{part}".lstrip()
        if part.startswith(MEMORY_TITLE)
        else part + (f"\n{title}{after}" if title else "")
    )


def _list_facts(machine: Mapping[str, str]) -> str:
    return "".join(f"- {name}: {machine[name]}\n" for name in FACTS if name in machine)


def _write_row(one: PageTimes) -> str:
    painted, whole = (
        _write_times(one.painted_ms, FIRST_PAINT_MS),
        _write_times(one.whole_ms, WHOLE_MS),
    )
    return f"| `{one.path}` | {one.rows:,} | {one.bytes / 1024:.0f} | {painted} | {whole} |\n"


def _write_times(times: Sequence[float], most: float) -> str:
    middle = f"{median(times):.0f}" if median(times) <= most else f"**{median(times):.0f}**"
    return f"{middle} ({max(times):.0f})"
