"""Every default that the five specifications name beside ours: equal, or a row of
docs/reference/contracts.md#other-defaults says why.
"""

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from router.agents.topology import AgentTopology, subscriptions_of
from router.bus.build_settings import build_bus_settings
from router.bus.subjects import COMMAND_NAMES, declare_streams, stream_of
from router.config import Settings
from router.config.subscriptions import SUBSCRIPTIONS
from router.contracts.alert import ALERT_SUBJECT
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS
from router.contracts.ingress import INGRESS_SUBJECT
from router.contracts.provider import INVOKE, INVOKE_STREAM
from router.contracts.usage import USAGE_SUBJECT
from router.delivery.wire.topology import ConsumerSpec
from router.extensions.model import invoke, subject_of
from router.extensions.model.entry import PROVIDER_TIMEOUT_MS, TIMEOUT_MS, parse_entry
from router.mailbox.inbox.dead_letters import pattern_of
from router.mailbox.inbox.rules import durable_of
from router.mailbox.streams import events_stream
from router.operate.admin.service import ADMIN
from router.sdk import Worker
from tests.support.counting_agent import CountingAgent

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "contracts.md").read_text()
NATS, PROTO, SR, SDS, MF = (
    "NATS Subjects",
    "Protobuf to NATS Subject Mapping",
    "SR-MESSAGE-CONTRACTS",
    "SDS-047",
    "Runtime JetStream",
)
ANSWERED_LATE = "default-timeout"
DAY = 86_400
S = Settings()
EVENTS, FOREIGN, INBOX = events_stream("sea"), events_stream("vibespro"), durable_of(S)
AGENTS = AgentTopology()
MESHFORGE = {spec.name: spec for spec in AGENTS.streams()}
BUS = {spec.name: spec for spec in declare_streams(build_bus_settings(S)).streams}
AGENT = subscriptions_of(CountingAgent(), AGENTS)[0]
ENTRY = parse_entry({"id": "norm", "type": "pre", "subject": "beamline.ext.pre.norm.v1"})


class SpecDefault(NamedTuple):
    """One default. `row`: the anchor of its row where ours is another."""

    specification: str
    name: str
    theirs: object
    ours: object
    row: str | None = None


DEFAULTS = [
    # the router's consumers
    SpecDefault(NATS, "decide: durable", "router-decide-consumer", S.decide.durable),
    SpecDefault(NATS, "decide: queue group", "router-decide-group", S.decide.deliver_group),
    SpecDefault(NATS, "decide: MaxDeliver", 3, S.decide.max_attempts),
    SpecDefault(NATS, "results: durable", "router-results", S.results.durable),
    SpecDefault(NATS, "results: queue group", "router-results-group", S.results.deliver_group),
    SpecDefault(NATS, "results: MaxDeliver", 10, S.results.max_attempts),
    SpecDefault(NATS, "acks: durable", "router-acks", S.acks.durable),
    SpecDefault(NATS, "acks: queue group", "router-acks-group", S.acks.deliver_group),
    SpecDefault(NATS, "acks: MaxDeliver", 3, S.acks.max_attempts),
    *(
        SpecDefault(
            NATS,
            f"{spec.name}: backoff, s",
            [1, 2, 4],
            [ms / 1000 for ms in spec.read_section(S).backoff_ms],
        )
        for spec in SUBSCRIPTIONS
    ),
    SpecDefault(
        NATS,
        "MaxDeliver on the server",
        3,
        ConsumerSpec(stream="S", durable="d").max_deliver,
        "default-max-deliver",
    ),
    SpecDefault(PROTO, "decide: durable", "router-decide-consumer", S.decide.durable),
    SpecDefault(
        PROTO, "results: durable", "router-result-consumer", S.results.durable, "default-names"
    ),
    SpecDefault(
        PROTO,
        "results: queue group",
        "router-result-group",
        S.results.deliver_group,
        "default-names",
    ),
    SpecDefault(PROTO, "results: MaxDeliver", 3, S.results.max_attempts, "default-attempts"),
    SpecDefault(PROTO, "acks: durable", "router-ack-consumer", S.acks.durable, "default-names"),
    SpecDefault(
        PROTO, "acks: queue group", "router-ack-group", S.acks.deliver_group, "default-names"
    ),
    SpecDefault(PROTO, "acks: MaxDeliver", 3, S.acks.max_attempts),
    SpecDefault(NATS, "ack_enabled", False, S.acks.enabled),
    # subjects
    SpecDefault(NATS, "decide subject", "beamline.router.v1.decide", S.decide.subject),
    SpecDefault(
        NATS,
        "reply subject",
        "beamline.router.v1.decide.reply",
        S.reply.subject or f"{S.decide.subject}.reply",
    ),
    SpecDefault(NATS, "results subject", "caf.exec.result.v1", S.results.subject),
    SpecDefault(NATS, "acks subject", "caf.exec.assign.v1.ack", S.acks.subject),
    SpecDefault(NATS, "assignment_subject", "caf.exec.assign.v1", S.assignment.subjects[0]),
    SpecDefault(NATS, "heartbeat subject", "caf.worker.heartbeat.v1", HEARTBEAT_SUBJECTS[0]),
    SpecDefault(NATS, "usage subject", "beamline.usage.v1.metered", USAGE_SUBJECT),
    SpecDefault(
        NATS,
        "alert subject",
        "beamline.alert.v1.critical",
        ALERT_SUBJECT.format(severity="critical"),
    ),
    SpecDefault(NATS, "ingress subject", "beamline.ingress.v1.message", INGRESS_SUBJECT),
    SpecDefault(NATS, "admin subject", "beamline.router.v1.admin.", ADMIN),
    SpecDefault(NATS, "provider subject", "beamline.provider.v1.invoke", INVOKE),
    SpecDefault(
        PROTO, "provider stream subject", "beamline.provider.v1.invoke.stream", INVOKE_STREAM
    ),
    SpecDefault(
        NATS,
        "extension subject",
        "beamline.ext.validate.pii_guard.v1",
        subject_of("validator", "pii_guard", "v1"),
    ),
    # switches
    SpecDefault(NATS, "dlq_enabled", True, S.dlq.enabled),
    SpecDefault(NATS, "dlq_subject_pattern", "{original_subject}.dlq", S.dlq.subject_pattern),
    SpecDefault(NATS, "dlq_include_full_message", True, S.dlq.include_full_message),
    SpecDefault(NATS, "ENABLE_USAGE_PUBLISH", True, S.usage.enabled),
    SpecDefault(NATS, "NATS_SUBJECT_ALLOWLIST", (), S.subject_allowlist),
    SpecDefault(NATS, "METRICS_TENANT_LABEL_ALLOWLIST", (), S.metrics.tenant_label_allowlist),
    # extensions, workers
    SpecDefault(NATS, "extension: timeout, ms", 5000, TIMEOUT_MS, ANSWERED_LATE),
    SpecDefault(PROTO, "extension: timeout, ms", 5000, TIMEOUT_MS, ANSWERED_LATE),
    SpecDefault(PROTO, "provider: timeout, ms", 5000, PROVIDER_TIMEOUT_MS),
    SpecDefault(NATS, "extension: retry", 0, ENTRY.retry),
    SpecDefault(PROTO, "extension: first pause, s", 0.1, invoke.RETRY_PAUSE_S),
    SpecDefault(
        NATS,
        "heartbeat interval, s",
        5.0,
        inspect.signature(Worker).parameters["heartbeat_s"].default,
    ),
    SpecDefault(
        PROTO,
        "a result without timestamp",
        "current time",
        "the time of its first storing",
        "default-timestamp",
    ),
    # the bus
    SpecDefault(SR, "NATS_URL", ("nats://localhost:4222",), S.nats.url),
    SpecDefault(SR, "NATS_STREAM_PREFIX", "sr", S.bus.stream_prefix),
    SpecDefault(SR, "NATS_CONSUMER_PREFIX", "sr-consumer", S.bus.consumer_prefix),
    SpecDefault(SR, "NATS_MESSAGE_TTL_SECS", 604_800, S.bus.message_ttl_secs),
    SpecDefault(SR, "NATS_MAX_MSGS_PER_SUBJECT", -1, S.bus.max_msgs_per_subject),
    SpecDefault(SR, "NATS_DUPLICATE_WINDOW_SECS", 120, S.bus.duplicate_window_secs),
    SpecDefault(SR, "sr-events: subjects", ("sr.events.*",), BUS["sr-events"].subjects),
    SpecDefault(
        SR,
        "sr-commands: subjects",
        ("sr.commands.*",),
        BUS["sr-commands"].subjects,
        "default-commands",
    ),
    SpecDefault(SR, "sr-queries: subjects", ("sr.queries.*",), BUS["sr-queries"].subjects),
    SpecDefault(SR, "sr-events: retention", "limits", BUS["sr-events"].retention),
    SpecDefault(SR, "sr-events: max_age, s", 7 * DAY, BUS["sr-events"].max_age),
    SpecDefault(SR, "sr-events: duplicate_window, s", 120, BUS["sr-events"].duplicate_window),
    SpecDefault(SR, "sr-events: name", "sr-events", stream_of(build_bus_settings(S), "events")),
    SpecDefault(
        SR,
        "commands",
        {"iteration.start", "iteration.complete", "candidate.register", "oracle.run"},
        set(COMMAND_NAMES),
    ),
    # the mailbox
    *(
        default
        for spec, context in ((EVENTS, "sea"), (FOREIGN, "vibespro"))
        for default in (
            SpecDefault(SDS, f"{context}: stream", f"{context.upper()}_EVENTS", spec.name),
            SpecDefault(SDS, f"{context}: subjects", (f"{context}.event.>",), spec.subjects),
            SpecDefault(SDS, f"{context}: retention", "limits", spec.retention),
            SpecDefault(SDS, f"{context}: max_age, s", 7 * DAY, spec.max_age),
            SpecDefault(
                SDS, f"{context}: max_bytes", 10 * 10**9, spec.max_bytes, "default-gigabytes"
            ),
            SpecDefault(SDS, f"{context}: replicas", 3, spec.replicas, "default-replicas"),
            SpecDefault(
                SDS, f"{context}: duplicate window, s", 120, spec.duplicate_window, "default-window"
            ),
        )
    ),
    SpecDefault(SDS, "consumer: stream", "VIBESPRO_EVENTS", INBOX.stream),
    SpecDefault(SDS, "consumer: durable", "sea__from_vibespro", INBOX.durable),
    SpecDefault(SDS, "consumer: filter_subject", "vibespro.event.>", INBOX.filter_subject),
    SpecDefault(SDS, "consumer: ack_wait, s", 120, INBOX.ack_wait),
    SpecDefault(SDS, "consumer: max_deliver", 20, INBOX.max_deliver),
    SpecDefault(SDS, "consumer: max_ack_pending", 50, INBOX.max_ack_pending),
    SpecDefault(SDS, "inbox.ack_wait, s", 120, S.inbox.ack_wait_ms / 1000),
    SpecDefault(SDS, "inbox.max_deliver", 20, S.inbox.max_deliver),
    SpecDefault(SDS, "inbox.max_ack_pending", 50, S.inbox.max_ack_pending),
    SpecDefault(SDS, "mailbox.context", "sea", S.mailbox.context),
    SpecDefault(SDS, "inbox.source", "vibespro", S.inbox.source),
    SpecDefault(SDS, "dead letters", "sea.dlq.", pattern_of("sea").partition("{")[0]),
    # agents
    SpecDefault(MF, "events: subjects", ("evt.>",), MESHFORGE["MESHFORGE_EVENTS"].subjects),
    SpecDefault(MF, "events: retention", "limits", MESHFORGE["MESHFORGE_EVENTS"].retention),
    SpecDefault(MF, "commands: subjects", ("cmd.>",), MESHFORGE["MESHFORGE_COMMANDS"].subjects),
    SpecDefault(MF, "commands: retention", "workqueue", MESHFORGE["MESHFORGE_COMMANDS"].retention),
    SpecDefault(MF, "consumer: name", "witness_consumer", AGENT.durable),
    SpecDefault(MF, "consumer: filter", ("cmd.default.demo.witness.>",), AGENT.filters),
    SpecDefault(MF, "MaxDeliveries", 5, AGENTS.max_deliver),
    SpecDefault(MF, "agents.max_deliver", 5, S.agents.max_deliver),
]


def _list_rows() -> dict[str, str]:
    """The rows of the page's table, by anchor."""
    section = PAGE.partition('<a id="other-defaults"></a>')[2].partition("\n<a id=")[0]
    return {
        match[1]: match[0]
        for match in re.finditer(r'^\| <a id="([a-z-]+)"></a>.*$', section, re.MULTILINE)
    }


@pytest.mark.parametrize("default", DEFAULTS, ids=lambda one: f"{one.specification}: {one.name}")
def test_a_default_is_the_specifications_or_its_row_says_why(default: SpecDefault) -> None:
    if default.row is None:
        assert default.ours == default.theirs
        return
    assert default.ours != default.theirs, "it is the specification's: its row goes"
    _, what, _, here, why, _ = (cell.strip() for cell in _list_rows()[default.row].split("|"))
    assert what
    assert here
    assert len(why.split()) > 3


def test_every_row_of_the_table_is_of_a_default_here() -> None:
    assert set(_list_rows()) == {default.row for default in DEFAULTS if default.row is not None}


def test_the_rows_say_what_is() -> None:
    here = {anchor: row.split("|")[3].strip() for anchor, row in _list_rows().items()}
    assert here[ANSWERED_LATE] == str(TIMEOUT_MS)
    assert here["default-max-deliver"] == str(ConsumerSpec(stream="S", durable="d").max_deliver)
    assert here["default-replicas"] == str(EVENTS.replicas)
    assert (here["default-window"], EVENTS.duplicate_window) == ("1 h", 3600.0)
    assert (here["default-gigabytes"], EVENTS.max_bytes) == ("10 GiB", 10 * 1024**3)
    assert here["default-attempts"] == str(S.results.max_attempts)
    assert {f"`{S.results.durable}`", f"`{S.results.deliver_group}`"} <= set(
        here["default-names"].split(", ")
    )
    assert here["default-commands"] == f"`{BUS['sr-commands'].subjects[0]}`"
