"""The generated code is that of proto/, with the field numbers of the specifications."""

import subprocess
import sys
from pathlib import Path

import pytest

from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.contracts.pb.beamline.ingress.v1 import ingress_pb2
from router.contracts.pb.beamline.provider.v1 import provider_pb2
from router.contracts.pb.beamline.worker.v1 import ack_pb2, result_pb2

ROOT = Path(__file__).parents[2]
NUMBERS = {
    flow_pb2.Message: "message_id tenant_id trace_id message_type payload metadata timestamp_ms",
    flow_pb2.RouteRequest: "message policy_id context",
    flow_pb2.RouteDecision: "provider_id reason priority expected_latency_ms expected_cost metadata",
    result_pb2.Job: "type metadata",
    result_pb2.ExecResult: (
        "assignment_id request_id status provider_id job latency_ms cost trace_id "
        "tenant_id timestamp error_code error_message"
        " retry_after_ms"
    ),
    ack_pb2.ExecAssignmentAck: "assignment_id status message request_id trace_id tenant_id acknowledged_at",
    provider_pb2.ProviderRequest: "provider_id message_id tenant_id trace_id body parameters metadata timestamp_ms",
    provider_pb2.ProviderResponse: "request_id status body metadata latency_ms cost error_code error_message timestamp_ms",
    provider_pb2.StreamChunk: "request_id data done metadata",
    ingress_pb2.IngressMessage: (
        "message_id correlation_id tenant_id trace_id message_type payload metadata "
        "timestamp_ms policy_id"
    ),
    ingress_pb2.IngressAck: "message_id correlation_id status message error_code metadata timestamp_ms",
}


@pytest.mark.parametrize(
    ("kind", "names"), NUMBERS.items(), ids=lambda item: getattr(item, "__name__", "")
)
def test_fields_are_numbered_from_one_in_the_order_of_the_page_and_new_ones_follow(
    kind, names
) -> None:
    numbers = {field.name: field.number for field in kind.DESCRIPTOR.fields}
    assert sorted(numbers.values()) == list(range(1, len(numbers) + 1))
    assert sorted(numbers, key=numbers.__getitem__)[: len(names.split())] == names.split()


def test_services_stand_in_the_contract() -> None:
    files = (flow_pb2, provider_pb2, ingress_pb2)
    methods = [
        method.full_name
        for file in files
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    assert methods == [
        "beamline.flow.v1.Router.Decide",
        "beamline.provider.v1.Provider.Invoke",
        "beamline.provider.v1.Provider.InvokeStream",
        "beamline.ingress.v1.Ingress.Send",
    ]


def test_the_committed_code_is_fresh() -> None:
    check = subprocess.run(
        [sys.executable, "proto/generate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stderr
