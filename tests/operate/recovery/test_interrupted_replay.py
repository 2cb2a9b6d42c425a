"""A replay that was killed before the backup is finished after the restore, and nothing is sent
twice.
"""

from pathlib import Path

import pytest

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.operate.dead_letters import ReplayUnprovable
from router.operate.recovery import read_manifest, restore, save_backup
from router.operate.recovery.recovery_order import list_to_save
from tests.support.broker import Broker
from tests.support.dead_letters import DeadLetterStreams, interrupt_replay
from tests.support.delivery import connected
from tests.support.service import settings_for


@pytest.mark.parametrize("is_named", [False, True], ids=["the router's", "those of an inbox"])
async def test_a_killed_replay_is_finished_after_a_restore(
    servers: tuple[Broker, Broker], tmp_path: Path, *, is_named: bool
) -> None:
    """It had sent the first and the last of three dead letters."""
    async with connected(servers[0].url) as connection:
        house = await DeadLetterStreams(JetStream(connection), "test").build()
        await house.store(3)
        await interrupt_replay(house, 1, 3)
        settings = settings_for(
            servers[0].url,
            "other" if is_named else "test",
            streams__dlq__name="OTHER" if is_named else house.letters,
        )
        await _save(
            house.jetstream,
            settings,
            [house.stream, *([house.letters] if is_named else [])],
            tmp_path / "b",
        )
    async with connected(servers[1].url) as connection:
        await restore(JetStream(connection), tmp_path / "b", read_manifest(tmp_path / "b"), ())
        restored = DeadLetterStreams(JetStream(connection), "test")
        report = await restored.replay()
        assert (report.finished, report.sent) == (2, 1)
        assert sorted(message.headers["Nats-Msg-Id"] for message in await restored.sent()) == [
            f"replay:{n}:1" for n in (1, 2, 3)
        ]


async def test_a_later_dead_letter_of_a_number_that_was_sent_is_another_one(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    """The dead letters were saved while there were two; the replay sent the first and a third."""
    async with connected(servers[0].url) as connection:
        house = await DeadLetterStreams(JetStream(connection), "test").build()
        await house.store(2)
        await save_backup(house.jetstream, [house.letters], tmp_path / "0")
        await house.store(1)
        await interrupt_replay(house, 1, 3)
        await save_backup(
            house.jetstream, [house.stream, f"KV_{house.letters}_REPLAYS"], tmp_path / "1"
        )
    async with connected(servers[1].url) as connection:
        for part in "01":
            await restore(
                JetStream(connection), tmp_path / part, read_manifest(tmp_path / part), ()
            )
        restored = DeadLetterStreams(JetStream(connection), "test")
        await restored.store(1)
        report = await restored.replay()
        assert (report.finished, report.sent) == (1, 2)


async def test_what_the_backup_lacks_of_a_killed_replay_stops_the_next_one(
    servers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    async with connected(servers[0].url) as connection:
        house = await DeadLetterStreams(JetStream(connection), "test").build()
        await house.store(2)
        await interrupt_replay(house, 1)
        await house.jetstream.ask(f"STREAM.MSG.DELETE.{house.stream}", {"seq": 1})
        await _save(
            house.jetstream,
            settings_for(servers[0].url, "test", streams__dlq__name=house.letters),
            [house.stream],
            tmp_path / "b",
        )
    async with connected(servers[1].url) as connection:
        await restore(JetStream(connection), tmp_path / "b", read_manifest(tmp_path / "b"), ())
        restored = DeadLetterStreams(JetStream(connection), "test")
        for _ in range(2):
            with pytest.raises(ReplayUnprovable):
                await restored.replay()
        assert (await restored.replay(is_forgetful=True)).sent == 2


async def _save(
    jetstream: JetStream, settings: Settings, others: list[str], directory: Path
) -> None:
    names = await list_to_save(jetstream, settings, others)
    saved = await save_backup(jetstream, names, directory)
    assert [one.name for one in saved.streams] == ["test_IN", "test_DLQ", "KV_test_DLQ_REPLAYS"]
