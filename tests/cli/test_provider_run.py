"""`router provider run`, as a process: it says that it is ready, answers through a router, drains
at SIGTERM, and refuses what it cannot serve.
"""

import json
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import Block, read_blocks
from tests.docs.pages import TOP
from tests.support.cli import COMMAND, call_command, run_process, serve_router
from tests.support.waiting import until

PAGE = TOP / "docs" / "how-to" / "run-a-provider.md"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = tmp_path_factory.mktemp("served")
    options = ("--embedded", "--http-port", "0", "--nats-port", "0", "--store", str(store))
    with serve_router(*options) as served:
        yield served.ready["nats_url"]


def invoked(url: str, *arguments: str) -> Any:
    return call_command(
        "provider", "invoke", "echo", "--tenant", "acme", *arguments, "--nats-url", url
    )


def typed(block: Block) -> list[str]:
    """A command of the page, without its first word."""
    return shlex.split(block.text)[1:]


async def test_the_page_works_as_it_stands_and_what_is_served_is_drained(url: str) -> None:
    serves, asks = [block for block in read_blocks(PAGE) if block.is_run]
    question = {"model": "echo-1", "messages": [{"role": "user", "content": "one two"}]}
    with run_process(*COMMAND, *typed(serves), "--nats-url", url) as (process, ready):
        assert (ready["event"], ready["id"], ready["models"]) == (
            "provider.ready",
            "echo",
            ["echo-1"],
        )
        # it is registered a moment later
        await until(lambda: invoked(url, "--prompt", "hello").status == 0)
        assert call_command(*typed(asks), "--nats-url", url).out == "hello there\n"
        api = ("--parameter", "api=chat.completions", "--json")
        told = invoked(url, "--prompt", json.dumps(question), *api).json
        assert json.loads(told["body"])["choices"][0]["message"]["content"] == "one two"
        shown = call_command("extension", "show", "echo", "--nats-url", url, "--json").json
        assert "chat.completions" in json.dumps(shown)
        checked = call_command("extension", "check", ready["subject"], "--nats-url", url)
        assert checked.status == 0, checked.out
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--kind", "other"), "is not one of openai, anthropic, ollama, echo"),
        (("--kind", "openai", "--base-url", "nonsense"), "--base-url: should be an http://"),
        (("--kind", "openai", "--key-file", "none.key"), "--key-file: the file cannot be read"),
        (("--kind", "openai", "--models", "none.json"), "--models: the file cannot be read"),
        (("--kind", "echo", "--base-url", "http://a"), "echo calls nothing"),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: tuple[str, ...], why: str) -> None:
    ended = call_command("provider", "run", "mine", *arguments)
    assert ended.status == 2
    assert why in " ".join(ended.err.split())


def test_an_entry_is_printed_for_an_operator_who_registers_it(url: str) -> None:
    """Also where one is there already, which a provider leaves as it is."""
    printed = call_command("provider", "run", "mine", "--kind", "echo", "--print-entry")
    entry = printed.json
    assert (entry["subject"], entry["metadata"]["models"]) == (
        "beamline.provider.mine.v1",
        ["echo-1"],
    )
    given = printed.out.encode()
    written = call_command("extension", "register", "-", "--nats-url", url, given=given)
    assert (printed.status, written.status) == (0, 0)


def test_a_key_goes_to_another_host_by_https_unless_it_is_said(tmp_path: Path) -> None:
    file = tmp_path / "api.key"
    file.write_text("sk-never-shown")
    file.chmod(0o600)
    asked = ("provider", "run", "mine", "--kind", "openai", "--key-file", str(file))
    ended = call_command(*asked, "--base-url", "http://api.test/v1")
    assert (ended.status, "--insecure-http" in ended.err) == (2, True)
    assert "sk-never-shown" not in ended.err
