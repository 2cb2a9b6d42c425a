"""An agent's pages: what they say of it without a broker."""

from pathlib import Path

from router.agents.agent import AgentRuntime
from router.process.observability import Metrics
from router.sdk.agent import AgentPages
from tests.support.counting_agent import CountingAgent
from tests.support.observability import parse_scrape

WITNESS = (("agent", "witness"),)


def pages_of(tmp_path: Path) -> tuple[AgentRuntime, AgentPages]:
    runtime = AgentRuntime(CountingAgent(), tmp_path / "w.db")
    return runtime, AgentPages("witness", runtime, ("127.0.0.1", 0))


def test_its_figures_are_its_metrics(tmp_path: Path) -> None:
    runtime, pages = pages_of(tmp_path)
    runtime.stats.applied, runtime.stats.dead, runtime.stats.given_up, runtime.stats.rescued = (
        5,
        3,
        2,
        1,
    )
    seen = parse_scrape(pages._register(Metrics()).registry)
    told = {
        name: seen[f"router_agent_{name}_total"][WITNESS]
        for name in ("applied", "duplicates", "dead", "given_up", "rescued")
    }
    assert told == {"applied": 5, "duplicates": 0, "dead": 3, "given_up": 2, "rescued": 1}


def test_a_consumer_of_which_some_messages_wait_is_named_and_it_is_not_ready(
    tmp_path: Path,
) -> None:
    runtime, pages = pages_of(tmp_path)
    (durable,) = runtime.durables
    runtime.stats.waiting.add(durable)
    check = pages._checks()["consumers"]
    assert (check.ok, check.detail) == (
        False,
        f"some messages wait for a stream that refuses, the others go on: {durable}",
    )


def test_a_consumer_that_waits_is_named_and_it_is_not_ready(tmp_path: Path) -> None:
    runtime, pages = pages_of(tmp_path)
    (durable,) = runtime.durables
    assert pages._checks()["consumers"].ok
    runtime.stats.paused.add(durable)
    assert pages._checks()["consumers"].detail == f"paused: {durable}"
    seen = parse_scrape(pages._register(Metrics()).registry)
    assert seen["router_consumer_paused"] == {(("consumer", durable),): 1}
    assert seen["router_ready"] == {(("check", "broker"),): 0, (("check", "consumers"),): 0}
