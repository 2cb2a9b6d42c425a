"""What operators hear: workers that fall silent or give up, assignments that are rejected, a broker
that was away.
"""

import contextlib
import json
import socket
from collections.abc import Callable

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from router.config import Settings
from router.contracts.assignment_record import acknowledgement_key, read_stored_acknowledgement
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.operate.dead_letters import list_newest_first
from tests.support.broker import Broker
from tests.support.router_streams import AlertRecorder, read_assignments
from tests.support.service import a_router, settings_for
from tests.support.stories import Json, a_request, ask, is_ready, read_metric
from tests.support.waiting import until


async def test_a_worker_that_falls_silent_is_alerted(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Three missed intervals, on either subject; the gauge follows. On a busy machine both may seem
    silent between two of their beats.
    """
    alarms = await AlertRecorder.heard_on(nc)

    async def are_seen_when_they_beat(http: str) -> bool:
        for subject, worker in (
            ("caf.worker.heartbeat.v1", "w-1"),
            ("caf.status.heartbeat.v1", "w-2"),
        ):
            beat = {"worker_id": worker, "timestamp": 1, "status": "busy", "interval_ms": 200}
            await nc.publish(
                subject, json.dumps({"version": "1", "kind": "heartbeat", "data": beat}).encode()
            )
        await nc.flush()
        return await _alive(http, 2)

    async with a_router(settings_for(nats_url, prefix)) as router:
        await until(lambda: are_seen_when_they_beat(router.ready.http))
        await until(
            lambda: set(alarms.causes("warning")) == {"worker_silent::w-1", "worker_silent::w-2"}
        )
        await until(lambda: _alive(router.ready.http, 0))


async def test_what_a_worker_gives_up_is_stored_and_alerted_by_one_router(
    nc: Client, nats_url: str, prefix: str
) -> None:
    alarms = await AlertRecorder.heard_on(nc)
    settings = settings_for(nats_url, prefix)
    async with a_router(settings), a_router(settings):
        result = {"assignment_id": "a-1", "status": "error", "error_message": "hopeless"}
        publish_ack = await nc.jetstream().publish("caf.exec.dlq.v1", json.dumps(result).encode())
        assert publish_ack.stream == settings.streams.dlq.name
        await until(lambda: alarms.causes("warning"))
        assert alarms.causes("warning") == ["worker_dead_letter"]


async def test_what_a_worker_could_not_read_is_stored_alerted_and_listed(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """A worker of the original tells of bytes that it could not parse in an envelope, on a subject
    of its own.
    """
    alarms = await AlertRecorder.heard_on(nc)
    settings = settings_for(nats_url, prefix)
    data = {
        "reason": "PARSE_ERROR",
        "payload_ref": {"subject": "caf.exec.assign.v1", "len": 17},
        "ts": "2026-01-02T03:04:05+00:00",
    }
    async with a_router(settings), a_router(settings):
        envelope = {"version": "v1", "kind": "dead_letter", "data": data}
        publish_ack = await nc.jetstream().publish(
            "caf.deadletter.v1", json.dumps(envelope).encode()
        )
        assert publish_ack.stream == settings.streams.dlq.name
        await until(lambda: alarms.causes("warning"))
        assert alarms.causes("warning") == ["worker_dead_letter"]
        connection = await connect({"servers": [nats_url]})
        (listed,) = [
            letter
            async for letter in list_newest_first(JetStream(connection), settings.streams.dlq.name)
        ]
        await connection.close()
    assert (listed.reason, listed.code, listed.original_subject) == (
        "processing_error",
        "PARSE_ERROR",
        "caf.deadletter.v1",
    )


async def test_a_rejected_assignment_is_alerted_and_stands_beside_its_record(
    nc: Client, nats_url: str, prefix: str
) -> None:
    alarms = await AlertRecorder.heard_on(nc)
    settings = settings_for(nats_url, prefix, acks__enabled="true")
    async with a_router(settings) as router:
        await ask(nc, settings, a_request(1, push_assignment=True))
        (assigned,) = await read_assignments(nc, settings)
        ack = {"assignment_id": assigned["assignment_id"], "status": "rejected", "message": "full"}
        await nc.jetstream().publish(settings.acks.subject, json.dumps(ack).encode())
        await until(lambda: alarms.causes("warning"))
        assert alarms.causes("warning") == ["assignment_rejected"]
        assert await read_metric(router.ready.http, "router_acks_total") == 1
        await until(lambda: _is_stored(nc, settings, assigned, ("rejected", "full")))


async def test_a_broker_that_was_away_is_told_once_it_is_back(
    broker: Broker, nats_url: str, prefix: str
) -> None:
    async with a_router(settings_for(nats_url, prefix)) as router:
        broker.kill()
        await until(lambda: _is_not_ready(router.ready.http))
        broker.start()
        heard = _listen_before_all_others(broker.port)
        await until(lambda: b"broker_back" in heard() and b"broker_lost" in heard())
        await until(lambda: is_ready(router.ready.http))


def _listen_before_all_others(port: int) -> Callable[[], bytes]:
    """What comes on the alerts' subjects; it is subscribed without a turn of the loop, so the
    router cannot be back sooner.
    """
    listener = socket.create_connection(("127.0.0.1", port))
    listener.sendall(b'CONNECT {"verbose": false}\r\nSUB beamline.alert.v1.* 1\r\nPING\r\n')
    heard = bytearray()
    while b"PONG" not in heard:
        heard += listener.recv(65536)
    listener.setblocking(False)

    def more() -> bytes:
        with contextlib.suppress(BlockingIOError):
            heard.extend(listener.recv(65536))
        return bytes(heard)

    return more


async def _is_stored(
    nc: Client, settings: Settings, assigned: Json, status: tuple[str, str]
) -> bool:
    """It is stored without an ack, so its alert may be heard before."""
    bucket = await nc.jetstream().key_value(settings.buckets.assignments_known.name)
    try:
        entry = await bucket.get(acknowledgement_key(assigned["assignment_id"]))
    except NotFoundError:
        return False
    state = read_stored_acknowledgement(entry.value or b"")
    return (state.status, state.message) == status


async def _alive(http: str, count: int) -> bool:
    return await read_metric(http, "router_workers_alive") == count


async def _is_not_ready(http: str) -> bool:
    return not await is_ready(http)
