"""`router price` on a real server: put, looked at, deleted; and a router that follows
(docs/reference/prices.md).
"""

import asyncio
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from router.cli.app import app
from router.core.clock import wall
from tests.support.buckets import a_bucket
from tests.support.cli import CommandResult, call_command_async
from tests.support.service import a_router, settings_for
from tests.support.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "prices.md"
GPT = {
    "provider": "openai",
    "model": "gpt-4o",
    "input": "2.50",
    "cached_input": "1.25",
    "output": "10",
    "currency": "USD",
}
WIDE = {"provider": "openai", "input": "5", "output": "15", "currency": "USD"}
LATER = {**GPT, "output": "8", "valid_from": "2090-01-01T00:00:00Z"}


class OperatorShell:
    """An operator with files, at a bucket of its own."""

    def __init__(self, files: Path, url: str, bucket: str) -> None:
        self.files = files
        self.environ = {"NATS_URL": url, "ROUTER_BUCKETS__PRICES__NAME": bucket}

    def write(self, document: object, name: str = "prices.json") -> str:
        file = self.files / name
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(file)

    def price(self, *arguments: str, given: str = "") -> CommandResult:
        done = CliRunner().invoke(
            app, ["price", *arguments], input=given, env=self.environ, catch_exceptions=False
        )
        return CommandResult(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def shell(nats_url: str, prefix: str, tmp_path: Path) -> OperatorShell:
    async def make() -> None:
        async with a_bucket(nats_url, prefix):
            pass

    asyncio.run(make())
    return OperatorShell(tmp_path, nats_url, prefix)


def test_the_prices_of_a_file_are_put_listed_and_shown(shell: OperatorShell) -> None:
    done = shell.price("put", shell.write([GPT, WIDE, LATER]), "--author", "ann", "--json")
    assert [(one["price"], one["is_new"], one["version"]) for one in done.lines] == [
        ("openai/gpt-4o#1", True, 1),
        ("openai#1", True, 1),
        ("openai/gpt-4o#2", True, 2),
    ]
    assert {one["in_force"] for one in shell.price("list", "--json").lines} == {
        "openai/gpt-4o#1",
        "openai#1",
    }
    shown = shell.price("show", "openai", "gpt-4o", "--json").json
    assert [(one["output"], one["version"]) for one in shown["prices"]] == [("10", 1), ("8", 2)]
    assert (shown["version"], shown["author"], shown["in_force"]) == (2, "ann", "openai/gpt-4o#1")
    assert "openai/gpt-4o#2" in shell.price("list", "--provider", "openai").out
    assert shell.price("list", "--provider", "other").out == "no prices\n"
    assert "openai#1" in shell.price("show", "openai").out


def test_the_file_of_the_page_is_legal_and_its_example_is_right(shell: OperatorShell) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shell.price("put", shell.write(example)).status == 0
    shown = shell.price("show", "openai", "gpt-4o", "--json").json["prices"][0]
    # of the worked example, in test_cost
    assert (shown["input"], shown["cached_input"], shown["output"]) == ("2.5", "1.25", "10")
    assert "= 5 750 for a million, so 0.00575" in PAGE.read_text()
    assert len(shell.price("list", "--json").lines) == 3


def test_a_file_can_be_put_twice(shell: OperatorShell) -> None:
    file = shell.write({"prices": [GPT, WIDE]})
    assert shell.price("put", file).status == 0
    again = shell.price("put", file, "--json")
    assert ([one["is_new"] for one in again.lines], again.status) == ([False, False], 0)
    assert "it was there already" in shell.price("put", file).out


def test_an_earlier_version_is_what_an_event_was_billed_by(shell: OperatorShell) -> None:
    for output in ("10", "12"):
        assert shell.price("put", "-", given=json.dumps({**GPT, "output": output})).status == 0
    assert (
        shell.price("show", "openai", "gpt-4o", "--version", "1", "--json").json["prices"][0][
            "output"
        ]
        == "10"
    )
    history = shell.price("history", "openai", "gpt-4o", "--json").lines
    assert [(one["version"], one["prices"]) for one in history] == [(1, 1), (2, 1)]
    assert "version" in shell.price("history", "openai", "gpt-4o").out


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([GPT, {**WIDE, "output": 1.5}], "[1].output: should be text or a whole number"),
        ({**GPT, "colour": 1}, "colour: there is no such key"),
        ({**GPT, "currency": "EUR"}, "currency: is EUR, and costs are in USD"),
        ("{", "is not JSON"),
        ([], "the file has no price"),
    ],
)
def test_a_file_with_a_mistake_names_its_place_and_nothing_is_written(
    shell: OperatorShell, document: object, says: str
) -> None:
    done = shell.price("put", shell.write(document))
    assert (done.status, says in done.err) == (1, True), done.err
    assert shell.price("list", "--json").lines == []


def test_prices_are_deleted_one_time_or_all(shell: OperatorShell) -> None:
    shell.price("put", shell.write([GPT, LATER]))
    assert (
        shell.price("delete", "openai", "gpt-4o", "--valid-from", "2090-01-01T00:00:00Z").status
        == 0
    )
    assert [one["prices"][0]["version"] for one in shell.price("list", "--json").lines] == [1]
    assert shell.price("delete", "openai", "gpt-4o", "--json").json["deleted"]
    assert shell.price("list", "--json").lines == []
    for arguments in (("delete", "openai", "gpt-4o"), ("show", "openai"), ("history", "other")):
        done = shell.price(*arguments)
        assert (done.status, "there is no price" in done.err) == (1, True), done.err
    assert shell.price("delete", "openai", "--valid-from", "tomorrow").status == 1
    assert [
        one["version"] for one in shell.price("history", "openai", "gpt-4o", "--json").lines
    ] == [1, 2, 3, "deleted"]


async def test_a_router_has_a_new_price_in_force(
    nats_url: str, prefix: str, tmp_path: Path
) -> None:
    settings = settings_for(nats_url, prefix)
    environ = {"NATS_URL": nats_url, "ROUTER_BUCKETS__PRICES__NAME": settings.buckets.prices.name}
    file = tmp_path / "prices.json"
    file.write_text(json.dumps([GPT, WIDE]))
    async with a_router(settings) as router:
        assert router.service.readiness()
        context = router.service._context
        assert context is not None
        assert context.pricing.table.find("openai", "gpt-4o", wall()) is None
        assert (await call_command_async("price", "put", str(file), environ=environ)).status == 0
        await until(
            lambda: context.pricing.table.find("openai", "gpt-4o", wall()),
            what="the price is in force",
        )
        assert (
            await call_command_async("price", "delete", "openai", "gpt-4o", environ=environ)
        ).status == 0
        await until(
            lambda: _label(context.pricing.table.find("openai", "gpt-4o", wall())) == "openai#1",
            what="the provider's holds",
        )


def _label(price: object) -> str | None:
    return getattr(price, "label", None)
