"""Names of any length and any letter, sent to a real router: neither its memory nor its page of
metrics grows with them.

`make matrix` sends 10 000 of each kind; `make test-all` a few hundred, long enough that keeping
them would show.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from nats.aio.client import Client

from router.contracts.pb.beamline.flow.v1 import flow_pb2
from router.contracts.pb.beamline.worker.v1 import ack_pb2, result_pb2
from tests.support.broker import Broker
from tests.support.policy_buckets import a_policy_of
from tests.support.service import RouterProcess, names_for
from tests.support.stories import has_acked_all, read_page
from tests.support.waiting import until

MIB = 1 << 20
LENGTH = 64 * 1024
IN_FLIGHT = 16
CONTROLS = "\x1b[31m\x00\r\u202e"


class Sent(NamedTuple):
    """Where a message goes, and what it is."""

    to: str
    data: bytes
    headers: Mapping[str, str] = {}


def _request(**fields: Any) -> dict[str, Any]:
    message = {"tenant_id": "acme", "message_type": "chat", "payload": "hello"}
    return {
        "message": {**message, **{k: v for k, v in fields.items() if k in message}},
        **{k: v for k, v in fields.items() if k not in message},
    }


def _asked(headers: Mapping[str, str] = {}, **fields: Any) -> Sent:
    return Sent("decide.subject", json.dumps(_request(**fields)).encode(), headers)


def _result(number: int, **fields: Any) -> Sent:
    body = {
        "assignment_id": f"a-{number}",
        "status": "success",
        "latency_ms": 5,
        "cost": 0.1,
        "tenant_id": "acme",
    }
    return Sent(
        "results.subject",
        json.dumps({**body, "provider_id": "p", "job_type": "chat", **fields}).encode(),
    )


def _ack(number: int, **fields: Any) -> Sent:
    return Sent(
        "acks.subject",
        json.dumps({"assignment_id": f"a-{number}", "status": "accepted", **fields}).encode(),
    )


def _asked_by_protobuf(policy_id: str = "default", **fields: Any) -> Sent:
    message = flow_pb2.Message(
        **{
            "tenant_id": "acme",
            "message_type": "chat",
            "payload": b"hello",
            "message_id": "m",
            **fields,
        }
    )
    return Sent(
        "decide.subject",
        flow_pb2.RouteRequest(message=message, policy_id=policy_id).SerializeToString(),
    )


def _result_by_protobuf(number: int, **fields: Any) -> Sent:
    body = {
        "assignment_id": f"a-{number}",
        "status": "success",
        "latency_ms": 5,
        "cost": 0.1,
        "tenant_id": "acme",
        "provider_id": "p",
    }
    job = result_pb2.Job(type=fields.pop("job_type", "chat"))
    return Sent(
        "results.subject", result_pb2.ExecResult(**{**body, **fields}, job=job).SerializeToString()
    )


def _beat(**fields: Any) -> Sent:
    return Sent(
        "caf.worker.heartbeat.v1",
        json.dumps({"worker_id": "w", "status": "idle", **fields}).encode(),
    )


KINDS: dict[str, Callable[[int, str], Sent]] = {
    "tenant": lambda _, name: _asked(tenant_id=name),
    "tenant in a header": lambda _, name: _asked({"tenant_id": name}),
    "policy": lambda _, name: _asked(policy_id=name),
    "message type": lambda n, name: _asked(message_type=name, request_id=f"type-{n}"),
    "message type, pushed": lambda n, name: _asked(
        message_type=name, push_assignment=True, request_id=f"pushed-{n}"
    ),
    "request id": lambda _, name: _asked(request_id=name),
    "idempotency key": lambda _, name: _asked(idempotency_key=name),
    "trace id": lambda _, name: _asked(
        {"trace_id": name, "version": "1", "Nats-Msg-Id": name[:100]}, trace_id=name
    ),
    "message id": lambda _, name: _asked({"Nats-Msg-Id": name}),
    "payload reference": lambda n, name: _asked(
        payload=None, payload_ref=name, push_assignment=True, request_id=f"ref-{n}"
    ),
    "session": lambda n, name: _asked(
        policy_id="sticky", context={"session_id": name}, request_id=f"session-{n}"
    ),
    "earlier request": lambda _, name: _asked(
        context={"previous_request_id": name, "status": "timeout"}
    ),
    "reply address": lambda _, name: _asked({"Reply-To": f"_INBOX.{name}"}),
    "tenant, protobuf": lambda _, name: _asked_by_protobuf(tenant_id=name),
    "policy, protobuf": lambda _, name: _asked_by_protobuf(policy_id=name),
    "message type, protobuf": lambda _, name: _asked_by_protobuf(message_type=name),
    "provider": lambda n, name: _result(n, provider_id=name),
    "provider, short": lambda n, name: _result(n, provider_id=CONTROLS + name[:80]),
    "tenant of a result": lambda n, name: _result(n, tenant_id=name),
    "job type": lambda n, name: _result(n, job_type=name),
    "error code": lambda n, name: _result(n, status="error", error_code=name),
    "error message": lambda n, name: _result(n, status="error", error_message=name),
    "assignment": lambda n, name: _result(n, assignment_id=name),
    "provider, protobuf": lambda n, name: _result_by_protobuf(n, provider_id=name),
    "job type, protobuf": lambda n, name: _result_by_protobuf(n, job_type=name),
    "error message, protobuf": lambda n, name: _result_by_protobuf(
        n, status="error", error_message=name
    ),
    "words of an ack": lambda n, name: _ack(n, message=name),
    "tenant of an ack": lambda n, name: _ack(n, tenant_id=name),
    "words of an ack, protobuf": lambda n, name: Sent(
        "acks.subject",
        ack_pb2.ExecAssignmentAck(
            assignment_id=f"a-{n}", status="accepted", message=name
        ).SerializeToString(),
    ),
    "worker": lambda _, name: _beat(worker_id=name[:15_000]),
    "tenant of a worker": lambda _, name: _beat(tenant_id=name[:15_000]),
}

LABELS = ("provider", "provider, short", "provider, protobuf", "policy", "job type")


class Place:
    """A router's process, and how much it holds."""

    def __init__(self, router: RouterProcess, nc: Client, names: Mapping[str, object]) -> None:
        self.router, self._nc, self._names = router, nc, names

    async def send(self, kind: str, begin: str, count: int) -> None:
        """So many names, each another one; returns when all were read."""
        for number in range(count):
            sent = KINDS[kind](
                number, f"{begin}{list(KINDS).index(kind)}-{number:x}-".ljust(LENGTH, "n")
            )
            await self._nc.publish(
                str(self._names.get(sent.to, sent.to)),
                sent.data,
                headers=dict(sent.headers) or None,
            )
            if number % IN_FLIGHT == IN_FLIGHT - 1 or number == count - 1:
                await self._nc.flush()
                await until(partial(self._is_read, sent.to.removesuffix(".subject")), within_s=30)

    async def _is_read(self, name: str) -> bool:
        if f"streams.{name}.name" not in self._names:
            return True  # heartbeats are stored nowhere
        stream = str(self._names[f"streams.{name}.name"])
        return all(
            [
                await has_acked_all(self._nc, stream, one.name)
                for one in await self._nc.jsm().consumers_info(stream)
            ]
        )

    def memory(self) -> int:
        with open(f"/proc/{self.router.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    async def metrics(self) -> str:
        return (await read_page(self.router.ready["http"], "/metrics"))[1]


@pytest.fixture
async def place(broker: Broker, nc: Client, prefix: str, tmp_path: Path) -> AsyncIterator[Place]:
    names = {**names_for(broker.url, prefix), "acks.enabled": "true", "log.level": "error"}
    for policy, sections in (
        ("default", {}),
        ("sticky", {"sticky": {"session_key": "session_id"}}),
    ):
        (tmp_path / "_shared").mkdir(exist_ok=True)
        (tmp_path / "_shared" / f"{policy}.json").write_bytes(a_policy_of("p", **sections))
    with RouterProcess(names, tmp_path) as router:
        yield Place(router, nc, names)


async def test_long_names_leave_no_trace_in_memory_or_metrics(place: Place) -> None:
    await _send_all(place, 96, most=28 * MIB)


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_ten_thousand_of_each_leave_no_trace(place: Place) -> None:
    await _send_all(place, 10_000, most=32 * MIB)


async def _send_all(place: Place, count: int, *, most: int) -> None:
    for kind in LABELS:
        await place.send(kind, "label", 10)  # before other names have taken all labels
    assert all(letter.isprintable() or letter == "\n" for letter in await place.metrics())
    for kind in KINDS:
        await place.send(kind, "first", 32)  # the memory of messages in flight, not what stays
    before, grown = place.memory(), {}
    for kind in KINDS:
        at = place.memory()
        await place.send(kind, "then", count)
        grown[kind] = f"{(place.memory() - at) / MIB:.1f}"
    assert place.memory() - before < most, f"MiB more after each kind: {grown}"
    assert len(await place.metrics()) < MIB // 2
