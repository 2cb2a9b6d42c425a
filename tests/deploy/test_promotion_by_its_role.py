"""A place is mirrored and promoted with the operator's key of deploy/nats/accounts.conf, which may
ask the other place what it needs.
"""

from collections.abc import Callable, Iterator

import pytest
from nats.aio.msg import Msg

from router.operate.recovery import promotion
from tests.support.cli import CommandResult, call_command_async
from tests.support.deployed import WITNESS, Deployed

ASKED = "$JS.hub.API.INFO"
MAY_ASK = '"$JS.*.API.INFO"'
MAY_LOOK = '"$JS.*.API.STREAM.NAMES", '


@pytest.fixture
def start() -> Iterator[Callable[..., Deployed]]:
    """A server without a stream; `change`: of its accounts.conf."""
    started: list[Deployed] = []

    def start(**options: Callable[[str], str]) -> Deployed:
        started.append(Deployed(**options).start())
        return started[-1]

    yield start
    for one in started:
        one.remove()


async def test_the_operator_promotes_the_mirrors_of_a_place_that_is_silent(
    start: Callable[..., Deployed],
) -> None:
    place = start()
    await _mirror(place)
    promoted = await _promote(place)
    assert promoted.status == 0, promoted.err
    assert {one["state"] for one in promoted.lines} == {"promoted"}
    assert {one["name"] for one in promoted.lines} >= {
        "ROUTER_DECIDE_P0",
        "KV_ROUTER_PARTITIONS",
        "KV_ROUTER_DLQ_REPLAYS",
    }
    assert place.violations() == []


async def test_the_operator_is_refused_while_the_mirrored_place_answers(
    start: Callable[..., Deployed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotion, "ANSWER_S", 60.0)  # however busy the machine is
    place = start()
    await _mirror(place)
    hub = await place.connect(WITNESS)

    async def answer(message: Msg) -> None:
        await message.respond(b"{}")

    await hub.subscribe(ASKED, cb=answer)
    await hub.flush()
    refused = await _promote(place)
    await hub.close()
    assert refused.status == 1
    assert "is not lost" in refused.err


async def test_without_the_right_to_ask_the_operator_hears_which_one_is_missing(
    start: Callable[..., Deployed],
) -> None:
    place = start(change=lambda accounts: accounts.replace(MAY_ASK, ""))
    await _mirror(place)
    refused = await _promote(place)
    assert refused.status != 0
    assert "whether the mirrored place answers" in refused.err
    assert ASKED in refused.err


async def test_without_the_right_to_look_the_operator_hears_which_one_is_missing(
    start: Callable[..., Deployed],
) -> None:
    """And nothing is mirrored."""
    place = start(change=lambda accounts: accounts.replace(MAY_LOOK, ""))
    refused = await _type_mirror(place)
    assert refused.status != 0
    assert "$JS.hub.API.STREAM.NAMES" in refused.err
    nc = await place.connect(WITNESS)
    assert await nc.jsm().streams_info() == []
    await nc.close()


async def _mirror(place: Deployed) -> None:
    """Of a domain that has a partition and the journal of a replay, and is gone before it sends a
    message: the mirrors are empty.
    """
    hub = await place.connect(WITNESS)

    async def answer(message: Msg) -> None:
        await message.respond(b'{"streams": ["ROUTER_DECIDE_P0"]}')

    await hub.subscribe("$JS.hub.API.STREAM.>", cb=answer)
    await hub.flush()
    mirrored = await _type_mirror(place)
    await hub.close()
    assert mirrored.status == 0, mirrored.err


async def _type_mirror(place: Deployed) -> CommandResult:
    return await call_command_async(
        "topology", "mirror", "--domain", "hub", environ=place.environ("operator")
    )


async def _promote(place: Deployed) -> CommandResult:
    return await call_command_async(
        "topology", "promote", "--worker", "caf-worker", "--json", environ=place.environ("operator")
    )
