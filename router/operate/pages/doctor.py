"""What the doctor finds, the worst first, and what to do; beside it the topology, and the settings
that both are judged by.
"""

from __future__ import annotations

from collections import Counter

from router.config import describe
from router.config.views import SETTINGS
from router.delivery.wire.topology import compare
from router.operate.doctor.examine_broker import examine_broker
from router.operate.topology.declared_topology import declare_topology
from router.operate.views import FINDINGS, TOPOLOGY, DeclaredPart
from router.shell.page_data import Page, PageParams, Sources, build_command

TABS = (("/doctor", "Findings"), ("/doctor/topology", "Topology"), ("/doctor/settings", "Settings"))


async def read_doctor(sources: Sources, _: PageParams) -> Page:
    """The findings of `router doctor`."""
    findings = await examine_broker(
        sources.link.jetstream(), sources.settings, sources.settings.nats.monitor
    )
    count = Counter(finding.verdict.value for finding in findings)
    return Page(
        title="Doctor",
        lead=(
            f"{count['fail']} failed, {count['warn']} "
            f"{'warning' if count['warn'] == 1 else 'warnings'}, {count['ok']} ok"
        ),
        command=build_command("router", "doctor"),
        tabs=TABS,
        table=FINDINGS.make_table(findings, empty="Nothing was examined."),
    )


async def read_topology(sources: Sources, _: PageParams) -> Page:
    """Each stream and consumer that a router declares, what is in it, and what differs on the
    server.
    """
    jetstream, topology = sources.link.jetstream(), declare_topology(sources.settings)
    differences = {difference.name: difference for difference in await compare(jetstream, topology)}
    parts = []
    for stream in topology.streams:
        kind, name = "bucket" if stream.name.startswith("KV_") else "stream", stream.name
        info = await jetstream.stream(name)
        parts.append(DeclaredPart(kind, name, differences.get(name), info))
    for consumer in topology.consumers:
        name = f"{consumer.stream}/{consumer.durable}"
        parts.append(DeclaredPart("consumer", name, differences.get(name)))
    parts.sort(key=lambda part: part.difference is None)
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
        table=TOPOLOGY.make_table(parts, empty="A router declares nothing here."),
    )


async def read_settings(sources: Sources, _: PageParams) -> Page:
    """The settings of this process, by which its pages look; a router's are the same only if it was
    given the same.
    """
    described = describe(sources.settings, sources.origins)
    described.sort(key=lambda setting: setting.source == "default")
    given = sum(setting.source != "default" for setting in described)
    return Page(
        title="Settings",
        lead=f"of this console, {given} given, the others defaults; a router's may be others",
        command=build_command("router", "config"),
        tabs=TABS,
        table=SETTINGS.make_table(described, empty="There are none."),
    )
