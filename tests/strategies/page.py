"""The page of measured strategies."""

from collections.abc import Mapping, Sequence

from tests.strategies.course import Course, Part

HEAD = """# Strategies at work

`make strategies` wrote this: four provider processes that work (latencies are lognormal around what is told), two routers on one server,
{rate:g} requests a second. Shares are of the choices, latencies and costs are those of results, as providers measured them. An
oracle knows what each provider does at the moment. [Strategies](../../docs/reference/policies.md#strategy) says how they choose.

"""
FACTS = ("date", "CPU", "memory", "system", "Python", "nats-server")


def write_page(machine: Mapping[str, str], rate: float, courses: Sequence[Course]) -> str:
    known = "".join(f"* {name}: {machine[name]}\n" for name in FACTS if name in machine)
    return HEAD.format(rate=rate) + known + "".join(map(write_course, courses))


def write_course(course: Course) -> str:
    rows = "".join(map(write_part, course.parts))
    again = f"\n{course.recorded} recorded decisions computed again: {course.differences} differ.\n" if course.recorded else ""
    return f"\n## {course.title}\n\n| what happens | seconds | requests | figures |\n|---|---:|---:|---|\n{rows}{again}"


def write_part(part: Part) -> str:
    figures = "; ".join(f"{name}: {value}" for name, value in part.figures)
    return f"| {part.what} | {part.seconds:.0f} | {part.requests} | {figures} |\n"
