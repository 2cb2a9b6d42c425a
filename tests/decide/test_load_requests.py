"""What a load sends: requests of a file or of a payload, each with an id of its own, else as given."""

import json
from pathlib import Path

import pytest
import typer

from router.decide.commands.load.requests import (
    RequestBodies,
    RequestChanges,
    build_head,
    find_fault,
    make_request,
    read_requests,
    write_request,
)
from router.decide.model.read import RequestLimits
from router.delivery.wire.frames import parse_head

PLAIN = RequestChanges()
LIMITS = RequestLimits()
SERVER_TAKES = 1024 * 1024
LINE = '{"tenant_id": "acme", "message_type": "chat", "payload": {"n": 1.10, "big": 123456789012345678901}}'


def read_lines(tmp_path: Path, *lines: str, changes: RequestChanges = PLAIN) -> RequestBodies:
    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join(lines))
    return read_requests(str(file), changes)


def sent(bodies: RequestBodies, place: int = 0) -> dict[str, object]:
    fields: dict[str, object] = json.loads(write_request("id-1", bodies.rests[place]))
    return fields


def test_a_line_is_sent_as_it_is_written_with_a_new_id(tmp_path: Path) -> None:
    bodies = read_lines(tmp_path, LINE)
    written = write_request("id-1", bodies.rests[0])
    assert b'{"n": 1.10, "big": 123456789012345678901}' in written
    assert json.loads(written) == {"request_id": "id-1", **json.loads(LINE)}


def test_an_id_or_a_key_of_the_line_does_not_make_it_the_same_request(tmp_path: Path) -> None:
    known = json.dumps({"request_id": "old", "idempotency_key": "k", **json.loads(LINE)})
    assert sent(read_lines(tmp_path, known)) == {"request_id": "id-1", **json.loads(LINE)}


def test_options_hold_for_every_line(tmp_path: Path) -> None:
    changes = RequestChanges("other", "mine", True)
    fields = sent(read_lines(tmp_path, "", LINE, changes=changes))
    assert (fields["tenant_id"], fields["policy_id"], fields["push_assignment"]) == (
        "other",
        "mine",
        True,
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[1]", "no JSON object"),
        ('{"tenant_id":', "no JSON object"),
        ('{"payload": 1}', "Missing required field: tenant_id"),
        ('{"tenant_id": "acme", "message_type": "chat"}', "Missing required field: payload"),
        (
            '{"tenant_id": "acme", "message_type": "chat", "payload": 1, "policy_id": "_x"}',
            "policy_id",
        ),
        ("{}", "Missing required field"),
    ],
)
def test_a_line_that_no_router_takes_is_refused_with_its_number(
    tmp_path: Path, line: str, told: str
) -> None:
    with pytest.raises(typer.BadParameter, match=rf"requests.jsonl, line 3: .*{told}"):
        read_lines(tmp_path, LINE, "", line).check(LIMITS, SERVER_TAKES)


def test_a_request_that_the_server_does_not_take_is_refused(tmp_path: Path) -> None:
    bodies = read_lines(tmp_path, LINE)
    bodies.check(LIMITS, SERVER_TAKES)
    with pytest.raises(typer.BadParameter, match=r"line 1: .* the server takes 100"):
        bodies.check(LIMITS, 100)


@pytest.mark.parametrize("lines", [(), ("", "  ")])
def test_a_file_without_requests_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with pytest.raises(typer.BadParameter, match="has 0 requests"):
        read_lines(tmp_path, *lines)


@pytest.mark.parametrize(
    ("payload", "size"),
    [(None, 128), ("0", 0), ("300", 300), ("16KB", 16_000), ("2 kib", 2_048), ("1MiB", 1_048_576)],
)
def test_a_number_is_a_size(payload: str | None, size: int) -> None:
    message = sent(make_request(payload, "chat", PLAIN))["message"]
    assert isinstance(message, dict)
    assert len(message["payload"]) == size
    assert (message["tenant_id"], message["message_type"]) == ("bench", "chat")


def test_any_other_payload_is_one_as_of_router_decide(tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"\x00\xff")
    found = [
        sent(make_request(text, "chat", RequestChanges("acme")))["message"]
        for text in ("hello", '{"n": 1}', f"@{file}")
    ]
    of_acme = {"tenant_id": "acme", "message_type": "chat"}
    assert found == [
        {**of_acme, "payload": "hello"},
        {**of_acme, "payload": {"n": 1}},
        {**of_acme, "payload": "AP8=", "payload_encoding": "base64"},
    ]
    for text in ("hello", '{"n": 1}', f"@{file}"):
        assert find_fault(make_request(text, "chat", PLAIN).rests[0], LIMITS, SERVER_TAKES) is None


def test_a_size_that_is_too_large_is_wrong_use() -> None:
    with pytest.raises(typer.BadParameter, match="at most"):
        make_request("900MB", "chat", PLAIN)


def test_the_headers_are_an_id_and_the_inbox() -> None:
    assert parse_head(build_head("r-1", "_INBOX.a.1")) == {
        "Nats-Msg-Id": "r-1",
        "Reply-To": "_INBOX.a.1",
    }
