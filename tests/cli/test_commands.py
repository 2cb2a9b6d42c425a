"""The client commands against one served router: each exit status by a process of its own, all else
called in this one.
"""

import asyncio
import json
import os
import pty
import signal
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from router.delivery.wire.first_connection import connect
from tests.support.broker import Broker
from tests.support.cli import (
    ASK,
    COMMAND,
    FROM_FILE,
    IMPATIENT,
    CommandResult,
    call_command,
    clean_environment,
    router,
    serve_router,
    table_words,
)
from tests.support.commands import every_command, examples_in, find_wrong_commands


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = tmp_path_factory.mktemp("store")
    with serve_router(
        "--embedded", "--http-port", "0", "--nats-port", "0", "--store", str(store)
    ) as served:
        yield served.ready["nats_url"]


@pytest.fixture(scope="module")
def letter(url: str) -> int:
    """The sequence of a dead letter whose payload is no text."""
    call_command(*FROM_FILE, given=b"\x01\x1b[31m\xff evil", environ={"NATS_URL": url})
    return int(
        call_command("dlq", "list", "--json", "--limit", "1", environ={"NATS_URL": url}).lines[0][
            "sequence"
        ]
    )


# -- decide ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--providers", "anthropic", "--providers", "unknown"), "anthropic"),
        (("--exclude", "anthropic"), "openai"),
        (("--exclude", "anthropic", "--providers", "anthropic"), "excluded"),
    ],
    ids=["providers", "exclude", "both"],
)
def test_a_request_may_narrow_the_choice(url: str, options: tuple[str, ...], told: str) -> None:
    ended = router(*ASK, "--payload", "x", *options, "--json", "--nats-url", url)
    assert ended.status == (1 if told == "excluded" else 0)
    answer = ended.json
    chosen = (
        answer["decision"]["provider_id"]
        if answer["ok"]
        else answer["error"]["details"]["providers"]["anthropic"]
    )
    assert chosen == told


def test_a_decision_is_printed_as_json(url: str) -> None:
    ended = router(
        *ASK,
        "--payload",
        '{"text": "hi"}',
        "--policy",
        "fast",
        "--request-id",
        "r-1",
        "--nats-url",
        url,
    )
    assert ended.status == 0
    assert ended.json["decision"]["provider_id"] == "local-small"
    assert ended.json["context"]["request_id"] == "r-1"


@pytest.mark.parametrize(
    ("asked", "is_one_line"), [((), False), (("--json",), True)], ids=["for a person", "--json"]
)
def test_an_answer_is_indented_on_a_terminal_but_for_programs(
    url: str, asked: tuple[str, ...], is_one_line: bool
) -> None:
    """As the help says of both; a terminal is a terminal here."""
    terminal, given_to_the_command = pty.openpty()
    command = [*COMMAND, *ASK, "--payload", "x", "--nats-url", url, *asked]
    status = subprocess.run(
        command, stdout=given_to_the_command, env=clean_environment(), timeout=120, check=False
    ).returncode
    os.close(given_to_the_command)
    told = _read_screen(terminal).decode()
    assert (status, json.loads(told)["ok"]) == (0, True)
    assert (len(told.splitlines()) == 1) is is_one_line


def _read_screen(terminal: int) -> bytes:
    """Read until the end of the terminal, which Linux reports as an OSError."""
    screen = b""
    with suppress(OSError):
        while chunk := os.read(terminal, 65_536):
            screen += chunk
    os.close(terminal)
    return screen


def test_the_context_reaches_the_policy(url: str) -> None:
    ask = (*ASK, "--payload", "x", "--context", "user_id=u-7", "--nats-url", url)
    providers = {call_command(*ask).json["decision"]["provider_id"] for _ in range(3)}
    assert len(providers) == 1


def test_a_no_is_status_1(url: str) -> None:
    ended = router(*ASK, "--payload", "x", "--policy", "nope", "--json", "--nats-url", url)
    assert (ended.status, ended.json["error"]["code"]) == (1, "policy_not_found")


def test_a_payload_comes_from_a_file_or_from_standard_input(url: str, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"\x00\xff")
    assert call_command(*ASK, "--payload", f"@{file}", "--nats-url", url).status == 0
    assert call_command(*ASK, "--payload", "-", "--nats-url", url, given=b"hello").status == 0


def test_a_file_of_requests_is_answered_in_its_order(url: str) -> None:
    requests = [
        {"tenant_id": "acme", "message_type": "chat", "payload": n, "request_id": f"f-{n}"}
        for n in range(200)
    ]
    lines = "\n".join(map(json.dumps, requests)).encode()
    ended = call_command(*FROM_FILE, "--nats-url", url, given=lines)
    assert ended.status == 0
    assert [line["context"]["request_id"] for line in ended.lines] == [f"f-{n}" for n in range(200)]


def test_one_refusal_in_a_file_is_status_1_and_the_rest_is_answered(url: str) -> None:
    ended = router(
        *FROM_FILE,
        "--nats-url",
        url,
        given=b'{"bad":1}\n\n{"tenant_id":"a","message_type":"t","payload":1}\n',
    )
    assert (ended.status, [line["ok"] for line in ended.lines]) == (1, [False, True])


async def test_ctrl_c_ends_a_waiting_command_with_130(nats_url: str) -> None:
    wire = await connect({"servers": [nats_url]})
    heard = asyncio.Event()
    await wire.subscribe_direct("silent", lambda *_: heard.set())
    await wire.flush()
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *ASK,
        "--payload",
        "x",
        "--nats-url",
        nats_url,
        env=clean_environment({"ROUTER_DECIDE__SUBJECT": "silent"}),
        stderr=PIPE,
        # the parent of the tests may ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    await asyncio.wait_for(heard.wait(), 120)
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")
    await wire.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ASK,
        (*ASK, "--payload", "x", "--context", "novalue"),
        (*ASK, "--payload", "@/nowhere"),
        ("decide", "--file", "/nowhere"),
        ("decide", "--file", "-", "--tenant", "acme"),
        ("decide", "--file", "-", "--exclude", "openai"),
        ("decide", "--nonsense"),
        ("nonsense",),
    ],
)
def test_wrong_use_is_status_2(arguments: tuple[str, ...]) -> None:
    assert call_command(*arguments).status == 2


AWAY = [
    ("doctor",),
    ("assignments",),
    ("workers",),
    ("dlq", "stats"),
    ("policy", "list"),
    ("topology", "plan"),
    ("extension", "list"),
    ("decide", "--tenant", "acme", "--type", "chat", "--payload", "x"),
]


@pytest.mark.parametrize("arguments", AWAY, ids=" ".join)
def test_a_broker_that_is_away_is_status_3(arguments: tuple[str, ...]) -> None:
    ended = call_command(*arguments, "--nats-url", "nats://127.0.0.1:1", environ=IMPATIENT)
    assert (ended.status, ended.out) == (3, "")
    assert "no NATS server answers at nats://127.0.0.1:1" in ended.err
    assert "start it, or name another in nats.url (--nats-url)" in ended.err


def test_no_answer_is_status_3(nats_url: str) -> None:
    ended = router(*ASK, "--payload", "x", "--timeout", "0.1", "--nats-url", nats_url)
    assert (ended.status, ended.out) == (3, "")
    assert (
        router(*ASK, "--payload", "x", "--nats-url", "nats://127.0.0.1:1", environ=IMPATIENT).status
        == 3
    )
    ended = router("decide", "--file", "-", "--timeout", "0.1", "--nats-url", nats_url, given=b"{}")
    assert (ended.status, ended.json["error"]["code"]) == (3, "no_answer")


# -- dead letters ----------------------------------------------------------------------------------


def test_dead_letters_are_listed_and_shown(url: str, letter: int) -> None:
    listed = call_command(
        "dlq", "list", "--since", "1h", "--reason", "validation_failed", "--nats-url", url
    )
    assert listed.status == 0
    assert {str(letter), "SCHEMA_VALIDATION_FAILED"} <= set(table_words(listed.out))
    shown = call_command("dlq", "show", str(letter), "--nats-url", url)
    assert "01 1b 5b 33 31 6d ff" in shown.out
    assert "\x1b" not in listed.out + shown.out


def test_a_dead_letter_as_json_is_whole(url: str, letter: int) -> None:
    whole = router("dlq", "show", str(letter), "--json", "--nats-url", url).json
    assert whole["payload_encoding"] == "base64"
    assert whole["letter"]["reason"] == "validation_failed"


def test_a_dead_letter_that_is_not_there_is_status_1(url: str) -> None:
    assert call_command("dlq", "show", "999999", "--nats-url", url).status == 1


def test_no_dead_letters_is_no_error(url: str, nats_url: str) -> None:
    assert (
        call_command("dlq", "list", "--tenant", "unknown", "--nats-url", url).out
        == "no dead letters\n"
    )
    assert call_command("dlq", "list", "--nats-url", nats_url).status == 0
    assert call_command("dlq", "list", "--since", "yesterday", "--nats-url", url).status == 2


# -- doctor and topology ---------------------------------------------------------------------------


def test_a_served_broker_passes_the_doctor(url: str) -> None:
    ended = call_command("doctor", "--json", "--nats-url", url)
    assert ended.status == 0, ended.out
    assert not [line for line in ended.lines if line["verdict"] == "fail"]
    assert {line["check"] for line in ended.lines if line["verdict"] == "ok"} >= {
        "server version",
        "jetstream",
        "topology",
    }


def test_an_empty_broker_fails_until_the_topology_is_applied() -> None:
    with Broker() as broker:
        at = ("--nats-url", broker.url)
        assert call_command("doctor", *at).status == 1
        assert _plan(at).status == 1
        assert call_command("topology", "apply", *at, "--json").status == 0
        assert _plan(at).lines == []
        assert call_command("doctor", *at).status == 0


def test_drift_is_planned_with_both_values() -> None:
    with Broker() as broker:
        call_command("topology", "apply", "--nats-url", broker.url)
        plan = call_command(
            "topology",
            "plan",
            "--nats-url",
            broker.url,
            "--json",
            environ={"ROUTER_STREAMS__DECIDE__MAX_BYTES": "1048576"},
        )
        assert plan.status == 1
        assert plan.json["fields"] == {"max_bytes": [1048576, 1073741824]}


def _plan(at: tuple[str, ...]) -> CommandResult:
    return call_command("topology", "plan", *at, "--json")


def test_the_topology_is_exported_for_other_tools(tmp_path: Path) -> None:
    assert {stream["name"] for stream in call_command("topology", "export").json["streams"]} >= {
        "ROUTER_DECIDE",
        "ROUTER_DLQ",
    }
    call_command("topology", "export", "--dir", str(tmp_path))
    assert json.loads((tmp_path / "stream-ROUTER_DECIDE.json").read_text())["no_ack"] is True
    assert (tmp_path / "consumer-ROUTER_DECIDE-router-decide-consumer.json").is_file()


# -- what asks no server ---------------------------------------------------------------------------


def test_the_tree_is_drawn() -> None:
    assert "└── consumer" in call_command("tree").out


def test_settings_tell_their_source_and_hide_secrets() -> None:
    rows = call_command(
        "config", "--json", environ={"ROUTER_NATS__TOKEN": "s3cret", "NATS_URL": "nats://u:p@h"}
    ).lines
    found = {row["name"]: row for row in rows}
    assert (found["nats.token"]["value"], found["nats.token"]["source"]) == (
        "***",
        "ROUTER_NATS__TOKEN",
    )
    assert "u:p" not in json.dumps(rows)


def test_policies_are_linted(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "good.json").write_text('{"providers": [{"name": "a", "weight": 1}]}')
    assert call_command("policy", "lint", str(tmp_path)).status == 0
    (tmp_path / "acme" / "bad.json").write_text('{"providers": [], "nonsense": 1}')
    ended = call_command("policy", "lint", str(tmp_path), "--json")
    assert ended.status == 1
    assert {line["path"] for line in ended.lines} == {"providers", "nonsense"}
    assert {line["file"] for line in ended.lines} == {"acme/bad.json"}


def test_the_policy_that_a_tenant_meets_is_shown() -> None:
    samples = str(Path("router/policies/sample_policies"))
    shown = call_command("policy", "show", "acme", "default", "--policies", samples, "--json")
    assert shown.json["tenant"] == "_shared"
    assert call_command("policy", "show", "acme", "nope", "--policies", samples).status == 1
    assert call_command("policy", "show", "..", "x", "--policies", samples).status == 2


def test_help_has_an_example_for_every_command() -> None:
    commands = dict(every_command())
    assert len(commands) >= 50
    assert [
        path for path, command in commands.items() if path not in examples_in(command.help or "")
    ] == []
    assert [
        path
        for path, command in commands.items()
        if find_wrong_commands(examples_in(command.help or ""))
    ] == []
    assert router("--help").status == 0


def test_the_version_is_told() -> None:
    assert call_command("version", "--json").json["router"]


def test_the_demo_plays_to_its_end() -> None:
    ended = router("demo", "--json")
    assert ended.status == 0
    assert ended.lines[-1] == {"event": "demo.ends", "ok": True, "problems": []}
    told = call_command("demo")
    assert "Everything was as it should be" in told.out
    assert told.err == ""
