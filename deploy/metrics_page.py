"""The page of metrics, made of the instruments and of the alerts: `python deploy/metrics_page.py >
docs/reference/metrics.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from router.bus.metrics import BusMetrics
from router.process.observability.instruments import MetricFamily
from router.process.observability.metrics import Metrics, ParentMetrics

RULES = Path(__file__).with_name("prometheus") / "rules"
HEAD = """# Metrics

Made by `python deploy/metrics_page.py`; a test keeps it equal to the code. [Operators' pages](operators.md#metrics) say how labels are
bounded and how exemplars are read. A histogram has `_bucket`, `_sum` and `_count`, in seconds. With `--processes` a gauge of several
processes becomes one value: the highest (max), the lowest (min) or their sum.
Each alert leads to its section of [the runbook](../how-to/runbook.md).
"""
SECTIONS = {
    "Of every router, relay, inbox and agent, at `/metrics`": Metrics,
    "Of the parent of several processes": ParentMetrics,
    "Of a program that uses the bus": BusMetrics,
}


def build_page() -> str:
    alerts = dict(_read_alerts())
    return HEAD + "".join(
        _build_section(title, kind().registry.snapshot(), alerts)
        for title, kind in SECTIONS.items()
    )


def _read_alerts() -> Iterator[tuple[str, str]]:
    """Each alert's name and its expression; what a recorded ratio is made of belongs to the alerts
    that read it.
    """
    text = "\n".join(file.read_text("utf-8") for file in sorted(RULES.glob("*.yml")))
    records = dict(re.findall(r"- record: (\S+)\s+expr: (.*(?:\n {10,}.*)*)", text))
    for name, expression in re.findall(r"- alert: (\w+)\s+expr: (.*(?:\n {10,}.*)*)", text):
        yield (
            name,
            expression
            + "".join(source for record, source in records.items() if record in expression),
        )


def _build_section(title: str, metrics: Iterable[MetricFamily], alerts: dict[str, str]) -> str:
    rows = "".join(_build_row(one, alerts) for one in metrics)
    return (
        f"\n## {title}\n\n| metric | kind | labels | what it counts or measures | alerts |\n"
        f"|---|---|---|---|---|\n{rows}"
    )


def _build_row(metric: MetricFamily, alerts: dict[str, str]) -> str:
    kind = f"gauge, {metric.aggregation}" if metric.kind == "gauge" else metric.kind
    used = (
        name
        for name, expression in alerts.items()
        if re.search(rf"\b{metric.name}(?:_bucket|_sum|_count)?\b", expression)
    )
    links = ", ".join(f"[{name}](../how-to/runbook.md#{name.lower()})" for name in used)
    return f"| `{metric.name}` | {kind} | {', '.join(metric.labels)} | {metric.help} | {links} |\n"


if __name__ == "__main__":
    print(build_page(), end="")
