"""Programs of a user's own: what they write where something fails, and how they end."""

import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from nats.aio.client import Client

from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import StreamSpec, Topology, bucket, create
from tests.support.agents import publish_until_stored
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.extension_author import a_request, data_of
from tests.support.sdk import a_body
from tests.support.stories import has_acked_all
from tests.support.user_programs import a_user_program
from tests.support.waiting import until

SECRET = "patient 4711"

BUS = """
import asyncio, sys
from router import Bus

async def handle(envelope):
    payload, note = envelope.payload, envelope.payload["note"]
    raise RuntimeError("the handler fails")

async def main():
    async with Bus(sys.argv[1]) as bus:
        await bus.publish("LoopCreated", {"note": sys.argv[2]}, message_id="evt_1", actor_id="u", actor_kind="HUMAN")
        await bus.consume("failing", handle)

asyncio.run(main())
"""
WORKER = """
import asyncio, sys
from router import Worker

async def answer(assignment):
    payload, note = assignment.payload, str(assignment.payload)
    raise RuntimeError("the handler fails")

asyncio.run(Worker(sys.argv[1], answer, worker_id="w-1").run())
"""
AGENT = """
import asyncio, sys
from router import Agent

class Failing:
    name = "failing"
    def receive(self, envelope): ...
    def apply(self, ctx, envelope):
        payload, note = envelope.payload, envelope.payload["note"]
        raise RuntimeError("the handler fails")

asyncio.run(Agent(sys.argv[1], Failing(), store=sys.argv[3]).run())
"""


async def empty_streams(nc: Client) -> None:
    """Of what other tests left in them."""
    for info in await nc.jetstream().streams_info():
        await nc.jetstream().purge_stream(str(info.config.name))


async def assign(nc: Client, url: str) -> None:
    async with connected(url) as connection:
        subjects = {
            "ROUTER_ASSIGNMENTS": "caf.exec.assign.v1",
            "ROUTER_RESULTS": "caf.exec.result.v1",
            "ROUTER_DLQ": "caf.exec.dlq.v1",
        }
        streams = [StreamSpec(name=name, subjects=(subject,)) for name, subject in subjects.items()]
        await create(JetStream(connection), Topology((*streams, bucket("ROUTER_ATTEMPTS", ttl=60))))
    await publish_until_stored(
        nc.jetstream(),
        json.dumps(a_body(job={"type": "chat", "payload": SECRET})).encode(),
        "caf.exec.assign.v1",
    )


async def command(nc: Client, url: str) -> None:
    await publish_until_stored(
        nc.jetstream(),
        json.dumps({"type": "x", "payload": {"note": SECRET}}).encode(),
        "cmd.default.demo.failing.x",
    )


async def nothing(nc: Client, url: str) -> None: ...


@pytest.mark.parametrize(
    ("program", "send"),
    [(BUS, nothing), (WORKER, assign), (AGENT, command)],
    ids=["bus", "worker", "agent"],
)
async def test_a_failing_handler_s_payload_is_written_nowhere(
    broker: Broker,
    nc: Client,
    tmp_path: Path,
    program: str,
    send: Callable[[Client, str], Awaitable[None]],
) -> None:
    """A library logs through `logging`: warnings on standard error, without the values of local
    variables; nothing on standard output.
    """
    await empty_streams(nc)
    async with a_user_program(program, broker.url, SECRET, tmp_path / "store.db") as running:
        await send(nc, broker.url)
        await running.says("the handler fails")
        await running.says("handler.failed")
        await running.kill()
    assert running.out == ""
    assert SECRET not in running.err
    assert "Traceback" in running.err


# -- the end ---------------------------------------------------------------------------------------

SLOW_BUS = """
import asyncio, sys
from router import Bus

async def handle(envelope):
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(0.3)
    print("done", file=sys.stderr, flush=True)

async def main():
    async with Bus(sys.argv[1]) as bus:
        await bus.publish("LoopCreated", {}, message_id=sys.argv[2], actor_id="u", actor_kind="HUMAN")
        await bus.consume(sys.argv[2], handle)

asyncio.run(main())
"""
SLOW_WORKER = """
import asyncio, sys
import router

async def answer(assignment):
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(0.3)
    print("done", file=sys.stderr, flush=True)
    return router.StepResult()

worker = router.Worker(sys.argv[1], answer, worker_id="w-1", durable=sys.argv[2])
"""
PLAIN_WORKER = f"{SLOW_WORKER}\nasyncio.run(worker.run())"
RUN_WORKER = f"{SLOW_WORKER}\nrouter.run(worker)\nprint('behind it', file=sys.stderr)"
SLOW_AGENT = """
import sys, time
import router

class Slow:
    name = "failing"
    def receive(self, envelope): ...
    def apply(self, ctx, envelope):
        print("begun", file=sys.stderr, flush=True)
        time.sleep(0.3)
        print("done", file=sys.stderr, flush=True)

router.run(router.Agent(sys.argv[1], Slow(), store=sys.argv[3]))
"""
SEVERAL = SLOW_BUS.replace(
    "await bus.consume(sys.argv[2], handle)",
    """asyncio.create_task(bus.consume("other", handle, category="commands"))
        try:
            await asyncio.gather(bus.consume(sys.argv[2], handle), asyncio.Event().wait())
        finally:
            print("left", file=sys.stderr, flush=True)""",
)
RUN_SEVERAL = SEVERAL.replace("import asyncio, sys", "import asyncio, router, sys").replace(
    "asyncio.run(main())", "router.run(main())"
)
NO_SERVER = (
    "import sys, router\nrouter.run(router.Worker('nats://127.0.0.1:1', lambda one: one, "
    "worker_id='w-1'))"
)
NO_SERVER_TO_SERVE_ON = (
    "from router.sdk.extension import pre, serve\n"
    "serve(pre('tidy')(lambda request: None), url='nats://127.0.0.1:1')"
)


class End(NamedTuple):
    """A program, what it is sent, the signal that ends it, what it prints after its messages in
    flight are settled, and their durable.
    """

    program: str
    send: Callable[[Client, str], Awaitable[None]]
    number: signal.Signals
    last_words: list[str]
    stream: str
    durable: str


ENDS = {
    "bus-term": End(SLOW_BUS, nothing, signal.SIGTERM, [], "sr-events", "sr-consumer-bus-term"),
    "bus-int": End(SLOW_BUS, nothing, signal.SIGINT, [], "sr-events", "sr-consumer-bus-int"),
    "several": End(SEVERAL, nothing, signal.SIGTERM, ["left"], "sr-events", "sr-consumer-several"),
    "worker-term": End(
        PLAIN_WORKER, assign, signal.SIGTERM, [], "ROUTER_ASSIGNMENTS", "worker-term"
    ),
    "worker-int": End(PLAIN_WORKER, assign, signal.SIGINT, [], "ROUTER_ASSIGNMENTS", "worker-int"),
    "run-worker": End(
        RUN_WORKER, assign, signal.SIGINT, ["behind it"], "ROUTER_ASSIGNMENTS", "run-worker"
    ),
    "run-several": End(
        RUN_SEVERAL, nothing, signal.SIGTERM, ["left"], "sr-events", "sr-consumer-run-several"
    ),
    "agent": End(SLOW_AGENT, command, signal.SIGTERM, [], "MESHFORGE_COMMANDS", "failing_consumer"),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_signal_drains_and_ends_without_a_traceback(
    broker: Broker, nc: Client, tmp_path: Path, name: str
) -> None:
    """Messages in flight are finished and settled, the status is 0; also where the program does
    more than consume.
    """
    end = ENDS[name]
    await empty_streams(nc)
    async with a_user_program(end.program, broker.url, name, tmp_path / "store.db") as running:
        await end.send(nc, broker.url)
        await running.says("begun")
        status = await running.told(end.number)
    assert (status, running.out) == (0, "")
    assert running.err.splitlines() == ["begun", "done", *end.last_words]
    # acks come after the end, too
    await until(
        lambda: has_acked_all(nc, end.stream, end.durable), what="what was in hand is settled"
    )


HUNG_WORKER = """
import sys, time
import router

def answer(assignment):
    print("begun", file=sys.stderr, flush=True)
    time.sleep(600)

router.run(router.Worker(sys.argv[1], answer, worker_id="w-1", durable=sys.argv[2], drain_s=0.1))
"""


async def test_a_signal_ends_a_worker_whose_plain_handler_never_returns(
    broker: Broker, nc: Client
) -> None:
    await empty_streams(nc)
    async with a_user_program(HUNG_WORKER, broker.url, "hung") as running:
        await assign(nc, broker.url)
        await running.says("begun")
        assert await running.told(signal.SIGTERM) == 0


HUNG_EXTENSION = """
import sys, time
from router.sdk.extension import pre, serve

@pre("hung_program", blocking=True)
def hung(request):
    print("begun", file=sys.stderr, flush=True)
    time.sleep(600)

serve(hung, url=sys.argv[1], drain_s=0.1, on_ready=lambda _: print("ready", file=sys.stderr, flush=True))
"""


async def test_a_signal_ends_an_extension_whose_blocking_function_never_returns(
    broker: Broker, nc: Client
) -> None:
    async with a_user_program(HUNG_EXTENSION, broker.url) as running:
        await running.says("ready")
        await nc.publish(
            "beamline.ext.pre.hung_program.v1", data_of(a_request()), reply=nc.new_inbox()
        )
        await running.says("begun")
        assert await running.told(signal.SIGTERM) == 0


@pytest.mark.parametrize("program", [NO_SERVER, NO_SERVER_TO_SERVE_ON], ids=["run", "serve"])
async def test_a_server_that_is_not_there_is_one_line(program: str) -> None:
    async with a_user_program(program) as running:
        assert await running.ended() == 1
    assert running.err.startswith("router: no NATS server answers")
    assert running.err.count("\n") == 1


OWN_HANDLER = """
import asyncio, signal, sys
from router import Bus

async def main():
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with Bus(sys.argv[1]) as bus:
        task = asyncio.create_task(bus.consume("own", lambda _: None))
        print("ready", file=sys.stderr, flush=True)
        await stopped.wait()
        print("still at work" if not task.done() else "ended", file=sys.stderr, flush=True)

asyncio.run(main())
"""


async def test_a_program_s_own_handler_of_a_signal_stays_the_program_s(broker: Broker) -> None:
    async with a_user_program(OWN_HANDLER, broker.url) as running:
        await running.says("ready")
        assert await running.told(signal.SIGTERM) == 0
    assert "still at work" in running.err
