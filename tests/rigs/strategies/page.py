"""The page of measured strategies."""

from collections.abc import Mapping, Sequence

from tests.rigs.strategies.course import Course, Measure, Part

HEAD = """# Strategies at work

`make strategies` wrote this: four provider processes that work (latencies are lognormal around what is told), two routers on one server,
{rate:g} requests a second. Shares are of the choices, latencies and costs are those of results, as providers measured them. An
oracle knows what each provider does at the moment. [Strategies](../../docs/reference/policies.md#strategy) says how they choose.

**Bold** is what is not as promised: after 5 s the share of a slow provider ≤ 5 %, and the p95 ≤ 1.2 × the oracle's; the share of a
failing one ≤ 2 %, and it is back within 10 s; both back, instances ≤ 2 points apart, the cost ≤ 1.05 × the oracle's within the objective.

"""
FACTS = ("date", "commit", "CPU", "memory", "system", "Python", "nats-server", "load")


def write_page(machine: Mapping[str, str], rate: float, courses: Sequence[Course]) -> str:
    known = "".join(f"- {name}: {machine[name]}\n" for name in FACTS if name in machine)
    return HEAD.format(rate=rate) + known + "".join(map(write_course, courses))


def write_course(course: Course) -> str:
    rows = "".join(map(write_part, course.parts))
    again = (
        f"\n{course.recorded} recorded decisions computed again: {course.differences} differ.\n"
        if course.recorded
        else ""
    )
    return (
        f"\n## {course.title}\n\n| what happens | seconds | requests | figures |\n"
        f"|---|---:|---:|---|\n{rows}{again}"
    )


def write_part(part: Part) -> str:
    return (
        f"| {part.what} | {part.seconds:.0f} | {part.requests} | "
        f"{'; '.join(map(write_measure, part.measures))} |\n"
    )


def write_measure(one: Measure) -> str:
    return f"{one.name}: **{one.value}**" if one.is_kept is False else f"{one.name}: {one.value}"
