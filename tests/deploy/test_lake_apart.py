"""The lake's key reads usage and reaches nothing else, by no detour; a user of a role does not hear
another one's answers.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router import Client as Gateway
from tests.support.cli import call_command_async
from tests.support.deployed import DEPLOY, Deployed, write_keys
from tests.support.service import a_router
from tests.support.stories import is_ready
from tests.support.waiting import until

USAGE = "beamline.usage.v1.metered"
EVIDENCE = {
    "ROUTER_RESULTS": "caf.exec.result.v1",
    "ROUTER_ASSIGNMENTS": "caf.exec.assign.v1",
    "ROUTER_DLQ": "caf.exec.result.v1.dlq",
    "ROUTER_DECIDE": "beamline.router.v1.decide",
    "KV_ROUTER_POLICIES": "$KV.ROUTER_POLICIES.stolen",
}


async def test_what_the_lake_has_delivered_is_stored_in_no_stream_of_the_router(
    deployed: Deployed, witness: Client
) -> None:
    """The server checks no push consumer's deliver subject, so a stream that binds this subject
    would store what is delivered.
    """
    for n in range(3):
        await witness.jetstream(timeout=60).publish(USAGE, b"%d" % n)
    async with await deployed.connect("lake") as lake:
        before = {stream: await _stored(witness, stream) for stream in EVIDENCE}
        await until(lambda: _reads(lake), what="the lake reads usage")
        for name in EVIDENCE.values():
            config = {
                "ack_policy": "none",
                "deliver_subject": name,
                "mem_storage": True,
                "inactive_threshold": 10**9,
            }
            asked = {"stream_name": "ROUTER_USAGE", "config": config}
            answer = json.loads(
                (
                    await lake.request(
                        "$JS.API.CONSUMER.CREATE.ROUTER_USAGE",
                        json.dumps(asked).encode(),
                        timeout=60,
                    )
                ).data
            )
            assert not answer.get("push_bound"), f"the server delivers to {name}"
        assert {stream: await _stored(witness, stream) for stream in EVIDENCE} == before


async def test_the_mirror_is_made_once(deployed: Deployed) -> None:
    again = await call_command_async("topology", "mirror", environ=deployed.environ("mirror"))
    assert (again.status, again.out) == (0, "nothing to do: the mirror was as declared\n")


async def _reads(lake: Client) -> bool:
    asked = {
        "stream_name": "ROUTER_USAGE",
        "config": {"ack_policy": "none", "mem_storage": True, "inactive_threshold": 10**9},
    }
    answer = json.loads(
        (
            await lake.request(
                "$JS.API.CONSUMER.CREATE.ROUTER_USAGE", json.dumps(asked).encode(), timeout=60
            )
        ).data
    )
    return int(answer.get("num_pending", 0)) >= 3


async def _stored(witness: Client, stream: str) -> int:
    return int((await witness.jsm().stream_info(stream)).state.last_seq)


# -- two gateways ----------------------------------------------------------------------------------


@asynccontextmanager
async def two_gateways() -> AsyncIterator[Deployed]:
    """As docs/how-to/deploy.md says: a key by keys.py, and a copy of the block with its own key and
    prefix.
    """
    with Deployed(users=("gateway.two",)) as deployed:
        await deployed.make_topology()
        yield deployed


async def test_a_second_gateway_does_not_hear_the_first_ones_answers() -> None:
    async with two_gateways() as deployed:
        heard: list[Msg] = []
        refused: list[str] = []

        async def hear(message: Msg) -> None:
            heard.append(message)

        async def note(exc: Exception) -> None:
            refused.append(str(exc))

        async with await deployed.connect("gateway.two", error_cb=note) as second:
            for subject in ("_INBOX_gateway.>", "_INBOX_gateway.one.>", "_INBOX_gateway.*.>"):
                await second.subscribe(subject, cb=hear)
            await second.subscribe("_INBOX_gateway.two.>", cb=hear)
            await until(lambda: len(refused) == 3)
            async with a_router(deployed.settings("router", http__port=0)) as running:
                assert await is_ready(running.ready.http)
                async with (
                    Gateway(deployed.settings("gateway").nats) as first,
                    Gateway(deployed.settings("gateway.two").nats) as other,
                ):
                    asked: dict[str, Any] = {
                        "tenant_id": "acme",
                        "message_type": "chat",
                        "payload": "hello",
                        "timeout": 60.0,
                    }
                    answers = await asyncio.gather(first.decide(**asked), other.decide(**asked))
                await until(lambda: len(heard) >= 1)  # its own prefix is heard
    assert all(answer.decision is not None or answer.error is not None for answer in answers)
    assert {message.subject.split(".")[1] for message in heard} == {"two"}


def test_keys_are_made_for_users_beside_the_roles(tmp_path: Path) -> None:
    write_keys(tmp_path, "gateway.two", "worker.eu")
    lines = (tmp_path / "keys.conf").read_text().splitlines()
    assert {line.split(":")[0] for line in lines} >= {
        "GATEWAY_KEY",
        "GATEWAY_TWO_KEY",
        "WORKER_EU_KEY",
        "MIRROR_KEY",
    }
    assert (tmp_path / "gateway.two.nk").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "user", ["gateway", "unknown.one", "gateway.", "gateway.a b", "gateway.../x", "gateway.A"]
)
def test_a_name_that_is_none_is_refused(user: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"like gateway\.two"):
        write_keys(tmp_path, user)


def test_no_role_with_many_users_listens_to_all_inboxes_of_its_role() -> None:
    text = (DEPLOY / "nats" / "accounts.conf").read_text()
    listened = [
        line
        for line in text.splitlines()
        if "subscribe" in line or line.strip().startswith('"_INBOX_')
    ]
    assert not [line for line in listened if "subscribe" in line and '"_INBOX_gateway.>"' in line]
    assert not [line for line in listened if "subscribe" in line and '"_INBOX_worker.>"' in line]
