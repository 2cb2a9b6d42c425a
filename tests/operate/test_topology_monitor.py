"""What several idle routers ask the server for together: as much as one of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from router.delivery.wire.shared_info import ROUND_S, SharedInfo
from router.delivery.wire.topology import create
from router.operate.alerts import Alerts
from router.operate.topology.declared_topology import declare_topology
from router.operate.topology.monitor import TopologyMonitor
from router.process.observability import Metrics
from tests.support.app import ManualClock
from tests.support.delivery import CountingJetStream, connected
from tests.support.service import settings_for
from tests.support.waiting import until

MONITORS = 3


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """By which an answer is young or too old."""
    monkeypatch.setattr("router.delivery.wire.shared_info.GATHER_S", 0.05)
    return ManualClock()


@pytest.fixture
async def monitors(
    nats_url: str, prefix: str, clock: ManualClock
) -> AsyncIterator[list[TopologyMonitor]]:
    settings = settings_for(nats_url, prefix)
    declared = declare_topology(settings)
    async with AsyncExitStack() as stack:
        found = []
        for number in range(MONITORS):
            connection = await stack.enter_async_context(connected(nats_url))
            alerts, consumers = (
                Alerts(f"n{number}", 1.0),
                SimpleNamespace(find_label=lambda spec: spec.durable, find_newest_ns=lambda _: 0),
            )
            found.append(
                monitor := TopologyMonitor(
                    CountingJetStream(connection),
                    declared,
                    Metrics((), 10),
                    alerts,
                    consumers,
                    mode="check",
                )
            )
            monitor.infos = SharedInfo(monitor.jetstream, clock)
            await stack.enter_async_context(monitor.infos.listen())
        await create(found[0].jetstream, declared)
        yield found


async def test_a_round_of_three_routers_is_a_round_of_one(
    monitors: list[TopologyMonitor], clock: ManualClock
) -> None:
    for monitor in monitors:  # each one's first answer of all is its own, for it tells the domain
        await monitor.infos.stream(monitor._declared.streams[0].name)
    first, *others = monitors
    await first.measure()
    await _hear_everything(monitors)
    keys = {key for key, answer in first.infos._answers.items() if answer is not None}
    for monitor in others:
        monitor.infos._answers.update(dict.fromkeys(keys - monitor.infos._answers.keys()))
    before = _asked(monitors)
    first.infos._answers.clear()
    await first.measure()
    await until(
        lambda: all(_has_all(other, keys) for other in others), what="the answers at the others"
    )
    one_round = _asked(monitors) - before
    clock.now += 2 * ROUND_S
    for monitor in others:
        await monitor.measure()
    streams, consumers = len(first._declared.streams), len(first._declared.consumers)
    assert one_round == _asked(monitors) - before == streams + consumers


async def _hear_everything(monitors: list[TopologyMonitor]) -> None:
    """Return when no answer is unpublished or under way."""
    await until(lambda: not any(monitor.infos._unpublished for monitor in monitors))
    # the server has what was published, then each monitor has what the server had
    for monitor in [*monitors, *monitors]:
        await monitor.jetstream.connection.flush()


def _asked(monitors: list[TopologyMonitor]) -> int:
    return sum(len(monitor.jetstream.asked) for monitor in monitors)  # type: ignore[attr-defined]


def _has_all(monitor: TopologyMonitor, keys: set[str]) -> bool:
    answers = monitor.infos._answers
    return all((answer := answers.get(key)) is not None and not answer.is_own for key in keys)
