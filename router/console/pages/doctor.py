"""What the doctor finds, the worst first, and what to do."""

from __future__ import annotations

from collections import Counter

from router.app.examine_broker import examine_broker
from router.console.page import Page, PageParams, Sources, build_command
from router.console.table import Column, Table

COLUMNS = (
    Column("verdict", "Verdict", "verdict"),
    Column("check", "Check"),
    Column("found", "Found", "prose"),
    Column("remedy", "What to do", "prose"),
)


async def read_doctor(sources: Sources, _: PageParams) -> Page:
    """The findings of `router doctor`."""
    findings = await examine_broker(sources.link.jetstream(), sources.settings, sources.settings.nats.monitor)
    count = Counter(finding.verdict.value for finding in findings)
    rows = [{"verdict": one.verdict.value, "check": one.check, "found": one.found, "remedy": one.remedy or None} for one in findings]
    return Page(
        title="Doctor",
        lead=f"{count['fail']} failed, {count['warn']} {'warning' if count['warn'] == 1 else 'warnings'}, {count['ok']} ok",
        command=build_command("router", "doctor"),
        table=Table(columns=COLUMNS, rows=rows, empty="Nothing was examined."),
    )
