"""`router provider invoke` and `router worker --providers`, as processes, on one served router and
the sample provider.
"""

import json
from collections.abc import Iterator

import pytest

from tests.cli.test_workers import next_line, pushed, working
from tests.support.cli import (
    COMMAND,
    IMPATIENT,
    CommandResult,
    call_command,
    run_process,
    serve_router,
)

ENTRY = {"id": "echo", "type": "provider", "subject": "beamline.provider.echo.v1"}
POLICY = {"version": "1.0", "providers": [{"name": "echo", "weight": 100}]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home = tmp_path_factory.mktemp("served")
    for name, document in (
        ("extensions/echo.json", ENTRY),
        ("policies/_shared/default.json", POLICY),
    ):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(json.dumps(document))
    (home / "router.toml").write_text(
        f"[extensions]\ndir = {json.dumps(str(home / 'extensions'))}\n"
    )
    options = (
        "--embedded",
        "--http-port",
        "0",
        "--nats-port",
        "0",
        "--store",
        str(home / "store"),
        "--policies",
        str(home / "policies"),
    )
    with serve_router(*options, "--config", str(home / "router.toml")) as served:
        url = served.ready["nats_url"]
        with run_process(*COMMAND, "extension", "serve-samples", "--nats-url", url):
            yield url


def invoked(url: str, *arguments: str, given: bytes = b"") -> CommandResult:
    return call_command(
        "provider", "invoke", *arguments, "--tenant", "acme", "--nats-url", url, given=given
    )


def test_the_answer_is_printed(url: str) -> None:
    ended = invoked(url, "echo", "--prompt", "you", "--parameter", "prefix=I see ")
    assert (ended.status, ended.out.strip()) == (0, "I see you")


def test_a_prompt_may_come_from_standard_input(url: str) -> None:
    assert invoked(url, "echo", "--prompt", "-", given=b"from afar").out.strip() == "from afar"


def test_a_stream_is_printed_as_it_comes(url: str) -> None:
    assert invoked(url, "echo", "--prompt", "one two", "--stream").out.strip() == "one two"


def test_a_stream_in_json_is_a_line_for_each_chunk(url: str) -> None:
    lines = invoked(url, "echo", "--prompt", "one two", "--stream", "--json").lines
    assert [line["data"] for line in lines] == ["one", " two", ""]
    assert [line["done"] for line in lines] == [False, False, True]
    assert lines[-1]["metadata"]["completion_tokens"] == "2"


def test_a_stream_in_json_that_fails_ends_with_the_chunk_that_says_why(url: str) -> None:
    ended = invoked(url, "nope", "--prompt", "hello", "--stream", "--json")
    (last,) = ended.lines
    assert (ended.status, last["done"], last["metadata"]["error_code"]) == (
        1,
        True,
        "extension_not_found",
    )


def test_with_json_all_is_told(url: str) -> None:
    told = invoked(url, "echo", "--prompt", "hello", "--json").json
    assert (told["status"], told["body"], told["metadata"]["prompt_tokens"]) == (
        "success",
        "hello",
        "1",
    )


@pytest.mark.parametrize("options", [(), ("--stream",)], ids=["whole", "stream"])
def test_one_that_is_not_registered_is_a_no(url: str, options: tuple[str, ...]) -> None:
    ended = invoked(url, "nope", "--prompt", "hello", *options)
    assert ended.status == 1
    assert "extension_not_found" in ended.err


def test_where_no_router_is_the_status_is_3(url: str) -> None:
    away = ("--nats-url", "nats://127.0.0.1:1")
    assert (
        call_command(
            "provider", "invoke", "echo", "--prompt", "x", "--tenant", "a", *away, environ=IMPATIENT
        ).status
        == 3
    )


def test_a_worker_with_providers_answers_assignments_by_invoking(url: str) -> None:
    with working(url, "--providers") as worker:
        pushed(url, "r-1")
        line = next_line(worker)
    assert (line["event"], line["status"], line["job"]) == ("worker.handled", "ok", "chat")


@pytest.mark.parametrize("wrong", [("--providers", "--echo"), ("--providers", "some:thing")])
def test_a_worker_has_one_way_of_answering(wrong: tuple[str, ...]) -> None:
    assert call_command("worker", *wrong).status == 2
