"""The page for authors of workers: what stands there works."""

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from router.contracts.acknowledgement import (
    ACKNOWLEDGEMENT_SUBJECT,
    ExecAssignmentAck,
    read_acknowledgement,
)
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.result import RESULT_SUBJECT
from router.core.message import Message
from router.delivery.wire.api import JetStream
from tests.support.delivery import connected
from tests.support.pages import files_of, importable
from tests.support.sdk import a_body, run_workers, some_worker_streams

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "write-a-worker.md").read_text()
FILES = files_of(PAGE)
# what the page shows
TOLD = [json.loads(line) for line in re.findall(r"^\{.*\}$", PAGE, re.MULTILINE)]


def test_the_pages_acknowledgement_is_one() -> None:
    (shown_ack,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    body = json.loads(shown_ack)
    ack = read_acknowledgement(
        Message(
            ACKNOWLEDGEMENT_SUBJECT,
            shown_ack.encode(),
            {},
            "ROUTER_ACKS",
            "router-acks",
            1,
            1,
            1,
            "",
        )
    ).found
    assert isinstance(ack, ExecAssignmentAck)
    assert {name: getattr(ack, name) for name in body} == body
    assert PAGE.count(ACKNOWLEDGEMENT_SUBJECT) >= 3
    assert "caf.exec.ack" not in PAGE


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importable(FILES, tmp_path, monkeypatch)


def shown(lines: list[dict[str, object]]) -> list[Mapping[str, object]]:
    """What the page and a run have in common: all but ids and clocks."""
    told = ("status", "cost", "payload", "error_code", "error_message")
    return [{name: line[name] for name in told if name in line} for line in lines]


async def test_the_pages_worker_says_what_the_page_shows(nats_url: str, prefix: str) -> None:
    async with (
        some_worker_streams(nats_url, prefix) as place,
        run_workers(place.worker(import_module("shout").answer)),
    ):
        works = [{"type": "chat", "payload": said} for said in ("hello", "busy", {"no": "text"})]
        await place.push(*(a_body(f"a-{number}", job=work) for number, work in enumerate(works)))
        results = await place.results(2)
        (letter,) = await place.letters()
    results.sort(key=lambda result: result["status"], reverse=True)
    # usage and a worker's lines have none
    assert shown(results) == shown([line for line in TOLD if isinstance(line.get("job"), dict)])
    assert [letter["error_code"], letter["error_message"]] == ["3001", "the payload is not text"]


async def test_what_is_stored_is_shown(
    nats_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = import_module("stored")
    monkeypatch.setattr(stored, "URL", nats_url)
    async with connected(nats_url) as connection:
        await JetStream(connection).ask(
            "STREAM.CREATE.RESULTS", {"name": "RESULTS", "subjects": [RESULT_SUBJECT]}
        )
        await connection.jetstream(timeout=60).publish(RESULT_SUBJECT, b"{}")
        await stored.main(RESULT_SUBJECT)
    assert capsys.readouterr().out == "{}\n"


async def test_a_worker_of_ones_own_process_takes_what_is_not_too_urgent(
    nats_url: str, prefix: str
) -> None:
    assert "router.run(router.Worker(" in "".join(FILES["gpu.py"].split())
    assert "`python gpu.py`" in PAGE
    gpu = import_module("gpu")
    async with (
        some_worker_streams(nats_url, prefix) as place,
        run_workers(place.worker(gpu.answer, accepts=gpu.not_too_urgent)),
    ):
        await place.push(a_body("a-1", job={"type": "chat", "payload": "hello"}))
        (result,) = await place.results()
    assert result["payload"] == {"text": "HELLO"}
    assert (
        gpu.not_too_urgent(
            read_exec_assignment(json.dumps(a_body(options={"priority": 90})).encode())
        )
        == "too urgent for me"
    )


def test_the_pages_test_passes() -> None:
    import_module("test_shout").test_text_is_shouted()
