"""What the doctor finds, the worst first, and what to do; beside it the topology, and the settings
that both are judged by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from router.config import describe
from router.delivery.wire.topology import Difference, StreamSpec, compare
from router.operate.doctor.examine_broker import examine_broker
from router.operate.topology.declared_topology import declare_topology
from router.operate.views import FINDINGS
from router.shell.page_data import Page, PageParams, Sources, build_command
from router.shell.table import Column, Row, Table

TOPOLOGY_COLUMNS = (
    Column("state", "State", "verdict"),
    Column("kind", "Kind"),
    Column("name", "Name"),
    Column("messages", "Messages", "number"),
    Column("bytes", "Bytes", "number"),
    Column("max_bytes", "At most", "number"),
    Column("replicas", "Copies", "number"),
    Column("differs", "Declared / on the server", "prose"),
)
SETTINGS_COLUMNS = (
    Column("setting", "Setting", "id"),
    Column("value", "Value", "prose"),
    Column("source", "From"),
    Column("meaning", "Meaning", "prose"),
)
TABS = (("/doctor", "Findings"), ("/doctor/topology", "Topology"), ("/doctor/settings", "Settings"))
AS_DECLARED = "as declared"


async def read_doctor(sources: Sources, _: PageParams) -> Page:
    """The findings of `router doctor`."""
    findings = await examine_broker(
        sources.link.jetstream(), sources.settings, sources.settings.nats.monitor
    )
    count = Counter(finding.verdict.value for finding in findings)
    rows = [FINDINGS.build_row(one) for one in findings]
    return Page(
        title="Doctor",
        lead=(
            f"{count['fail']} failed, {count['warn']} "
            f"{'warning' if count['warn'] == 1 else 'warnings'}, {count['ok']} ok"
        ),
        command=build_command("router", "doctor"),
        tabs=TABS,
        table=Table(columns=FINDINGS.page_columns, rows=rows, empty="Nothing was examined."),
    )


async def read_topology(sources: Sources, _: PageParams) -> Page:
    """Each stream and consumer that a router declares, what is in it, and what differs on the
    server.
    """
    jetstream, topology = sources.link.jetstream(), declare_topology(sources.settings)
    differences = {one.name: one for one in await compare(jetstream, topology)}
    rows: list[Row] = []
    for stream in topology.streams:
        info = await jetstream.stream(stream.name)
        rows.append(
            {**_describe_stream(stream, info), **_describe_state(differences.get(stream.name))}
        )
    for consumer in topology.consumers:
        name = f"{consumer.stream}/{consumer.durable}"
        rows.append({"kind": "consumer", "name": name, **_describe_state(differences.get(name))})
    rows.sort(key=lambda row: row["state"] == AS_DECLARED)
    return Page(
        title="Topology",
        lead=(
            f"{len(topology.streams)} streams, {len(topology.consumers)} consumers; "
            f"{len(differences)} not as declared"
        ),
        command=build_command("router", "topology", "plan"),
        repair=build_command("router", "topology", "apply") if differences else "",
        repair_note="creates what is missing, and restores what has drifted; nothing is deleted",
        tabs=TABS,
        table=Table(columns=TOPOLOGY_COLUMNS, rows=rows, empty="A router declares nothing here."),
    )


async def read_settings(sources: Sources, _: PageParams) -> Page:
    """The settings of this process, by which its pages look; a router's are the same only if it was
    given the same.
    """
    found = describe(sources.settings, sources.origins)
    rows = [
        {"setting": one.name, "value": one.value, "source": one.source, "meaning": one.description}
        for one in found
    ]
    rows.sort(key=lambda row: row["source"] == "default")
    given = sum(row["source"] != "default" for row in rows)
    return Page(
        title="Settings",
        lead=f"of this console, {given} given, the others defaults; a router's may be others",
        command=build_command("router", "config"),
        tabs=TABS,
        table=Table(columns=SETTINGS_COLUMNS, rows=rows, empty="There are none."),
    )


def _describe_stream(stream: StreamSpec, info: Mapping[str, Any] | None) -> Row:
    row: Row = {
        "kind": "bucket" if stream.name.startswith("KV_") else "stream",
        "name": stream.name,
    }
    if info is None:
        return row
    state, config = info["state"], info["config"]
    limit = config["max_bytes"]
    figures: Row = {
        "messages": state["messages"],
        "bytes": state["bytes"],
        "replicas": config["num_replicas"],
    }
    return {**row, **figures, "max_bytes": limit if limit > 0 else None}


def _describe_state(difference: Difference | None) -> Row:
    if difference is None:
        return {"state": AS_DECLARED}
    fields = "; ".join(
        f"{name}: {want!r} / {has!r}" for name, (want, has) in difference.fields.items()
    )
    return {"state": difference.state, "differs": fields or None}
