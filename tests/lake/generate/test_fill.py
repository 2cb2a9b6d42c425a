"""A load in the stream: all of it, in order, or an error."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from router.core.errors import Misconfigured
from router.delivery.wire.api import JetStream
from router.lake.generate import Load, LoadPlan, fill
from router.lake.generate.fill import FillFailed
from tests.support.delivery import connected
from tests.support.made_anew import create_stream
from tests.support.patient_client import PATIENCE_S

PLAN = LoadPlan(events=12_345, duplicates=0.1, conflicts=3, tenants=3)
SUBJECT = "beamline.usage.v1.metered"


async def a_stream(jetstream: JetStream, name: str, **more: object) -> None:
    await create_stream(
        jetstream, name, {"subjects": [SUBJECT], "duplicate_window": 600 * 10**9, **more}
    )


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        yield jetstream
        await jetstream.ask("STREAM.DELETE.FILLED")


async def test_every_message_is_stored_in_order_after_what_was_there(jetstream: JetStream) -> None:
    await a_stream(jetstream, "FILLED")
    await jetstream.publish(SUBJECT, b"{}", {})
    filled = await fill(jetstream, Load(PLAN), "FILLED")
    assert (filled.first_seq, filled.last_seq) == (2, 12_346)
    last = list(Load(PLAN).make_chunks())[-1][-1]
    stored = await jetstream.message("FILLED", 12_346)
    assert stored is not None
    assert (stored.headers["Nats-Msg-Id"], stored.data) == last


async def test_the_way_is_told(jetstream: JetStream) -> None:
    await a_stream(jetstream, "FILLED")
    told: list[tuple[int, int]] = []
    await fill(jetstream, Load(PLAN), "FILLED", lambda done, total: told.append((done, total)))
    assert told[0] == (1_000, 12_345)
    assert told[-1] == (12_345, 12_345)


async def test_the_same_seed_again_is_refused_as_the_broker_would_drop_it(
    jetstream: JetStream,
) -> None:
    await a_stream(jetstream, "FILLED")
    await fill(jetstream, Load(PLAN), "FILLED")
    with pytest.raises(FillFailed, match="--seed"):
        await fill(jetstream, Load(PLAN), "FILLED")


async def test_a_load_that_is_dropped_in_part_is_an_error(jetstream: JetStream) -> None:
    await a_stream(jetstream, "FILLED")
    one = replace(PLAN, events=500)
    message_id, body = next(Load(one).make_chunks())[3]
    await jetstream.publish(SUBJECT, body, {"Nats-Msg-Id": message_id})
    with pytest.raises(FillFailed, match="sequence 500 instead of 501"):
        await fill(jetstream, Load(one), "FILLED")


async def test_a_full_stream_is_an_error(jetstream: JetStream) -> None:
    await a_stream(jetstream, "FILLED", max_msgs=5_000, discard="new")
    # the second if the server refused one that bears no ack
    with pytest.raises(FillFailed, match=r"takes no more|dropped messages"):
        await fill(jetstream, Load(PLAN), "FILLED")


async def test_a_stream_that_is_not_there_is_told(jetstream: JetStream) -> None:
    await a_stream(jetstream, "FILLED")
    with pytest.raises(Misconfigured, match="NOWHERE"):
        await fill(jetstream, Load(PLAN), "NOWHERE")
