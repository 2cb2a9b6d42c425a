"""Exemplars: the newest message of each series, in OpenMetrics alone, also of several processes."""

import msgspec
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from router.process.observability import Metrics, render
from router.process.observability.exposition import CONTENT_TYPE, OPEN_METRICS, choose_content_type
from router.process.observability.instruments import MAX_EXEMPLAR
from router.serve.fleet.ipc import ChildStatus
from router.serve.fleet.merge_snapshots import merge_snapshots
from tests.support.observability import http_get, serve_http

NAME = "router_nats_contract_violations_total"
LABELS = ("s", "trace_id", "malformed", "beta")
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
)


def exemplars_in(text: str) -> list[tuple[float, dict[str, str]]]:
    """Value and exemplar of each series of the counter."""
    samples = [
        sample
        for family in read_open_metrics(text)
        for sample in family.samples
        if sample.name == NAME
    ]
    return [(sample.value, sample.exemplar.labels if sample.exemplar else {}) for sample in samples]


async def test_a_scraper_that_takes_open_metrics_gets_exemplars_and_any_other_does_not() -> None:
    metrics = Metrics()
    metrics.violations.note(LABELS, {"trace_id": "t-1", "message_id": "m-1"}, 1_700_000_000.5)
    metrics.violations.note(LABELS, {"message_id": "m-2"}, 1_700_000_001.5)
    async with serve_http(metrics.registry) as port:
        _, with_exemplars = await http_get(port, "/metrics", PROMETHEUS)
        _, without = await http_get(port, "/metrics")
    assert exemplars_in(with_exemplars.decode()) == [(2, {"message_id": "m-2"})]
    assert b"m-2" not in without
    assert {family.name for family in read_text(without.decode())} == {
        family.name for family in read_open_metrics(with_exemplars.decode())
    }


def test_of_several_processes_it_is_the_newest() -> None:
    snapshots = []
    for name, at in (("m-old", 10.0), ("m-new", 30.0), ("m-mid", 20.0)):
        metrics = Metrics()
        metrics.violations.note(LABELS, {"message_id": name}, at)
        # as a child process sends it
        sent = msgspec.msgpack.encode(ChildStatus({}, metrics.registry.snapshot()))
        snapshots.append(msgspec.msgpack.decode(sent, type=ChildStatus).families)
    text = render(merge_snapshots(snapshots), content_type=OPEN_METRICS).decode()
    assert exemplars_in(text) == [(3, {"message_id": "m-new"})]


def test_ids_that_do_not_fit_are_left_out() -> None:
    metrics = Metrics()
    metrics.violations.note(LABELS, {"trace_id": "t" * 128, "message_id": "m-1"}, 1.0)
    ((_, exemplar),) = exemplars_in(
        render(metrics.registry.snapshot(), content_type=OPEN_METRICS).decode()
    )
    assert exemplar == {"message_id": "m-1"}
    assert sum(len(name) + len(value) for name, value in exemplar.items()) <= MAX_EXEMPLAR


def test_the_format_is_chosen_by_what_the_scraper_accepts() -> None:
    assert choose_content_type(PROMETHEUS) == OPEN_METRICS
    assert [
        choose_content_type(accept) for accept in ("", "*/*", "text/plain;version=0.0.4")
    ] == 3 * [CONTENT_TYPE]
