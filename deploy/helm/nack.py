"""The declared streams and consumers as resources of NACK: `python deploy/helm/nack.py >
deploy/helm/router/files/nack.yaml`.

Buckets are streams here too, because a KeyValue of NACK cannot say all that theirs need. Names are
those of Kubernetes; `spec.name` is the stream's. A field that NACK does not know must have the
server's default, else this ends with an error that names it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import yaml

from router.config import load
from router.operate.topology.declared_topology import declare_topology

NANOSECONDS = 1_000_000
STREAM_FIELDS = {
    "name": "name",
    "subjects": "subjects",
    "max_bytes": "maxBytes",
    "max_msgs": "maxMsgs",
    "discard": "discard",
    "retention": "retention",
    "num_replicas": "replicas",
    "no_ack": "noAck",
    "allow_direct": "allowDirect",
    "max_msgs_per_subject": "maxMsgsPerSubject",
    "allow_rollup_hdrs": "allowRollup",
    "storage": "storage",
}
CONSUMER_FIELDS = {
    "durable_name": "durableName",
    "ack_policy": "ackPolicy",
    "deliver_policy": "deliverPolicy",
    "replay_policy": "replayPolicy",
    "max_ack_pending": "maxAckPending",
    "max_deliver": "maxDeliver",
    "max_waiting": "maxWaiting",
    "filter_subject": "filterSubject",
    "filter_subjects": "filterSubjects",
    "metadata": "metadata",
}
DURATIONS = {"max_age": "maxAge", "duplicate_window": "duplicateWindow", "ack_wait": "ackWait"}
DEFAULTS = {"allow_atomic": False}
API_VERSION = "jetstream.nats.io/v1beta2"


def main() -> None:
    # NACK's streams take no atomic batches: the chart switches them off with it.
    topology = declare_topology(load(None, {"effects.batches": False}, {}).settings)
    streams = [
        _build("Stream", one.name, _translate(one.to_json(), STREAM_FIELDS))
        for one in topology.streams
    ]
    consumers = [
        _build(
            "Consumer",
            one.durable,
            {"streamName": one.stream, **_translate(one.to_json(), CONSUMER_FIELDS)},
        )
        for one in topology.consumers
    ]
    print("# Made by `python deploy/helm/nack.py`: what `router topology export` prints, for NACK.")
    yaml.safe_dump({"resources": [*streams, *consumers]}, sys.stdout, sort_keys=False, width=140)


def _build(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name.lower().replace("_", "-")}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _translate(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    for field, value in config.items():
        if field in names:
            spec[names[field]] = value
        elif field in DURATIONS:
            spec[DURATIONS[field]] = f"{value // NANOSECONDS}ms"
        elif DEFAULTS.get(field) != value and not (
            field == "name" and value == config.get("durable_name")
        ):
            raise SystemExit(f"NACK knows no {field}: {value!r}")
    return spec


if __name__ == "__main__":
    main()
