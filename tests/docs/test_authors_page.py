"""The page for authors in any language: each message on it is one of the contract, on a subject
that carries it.
"""

import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec import Struct

from router.config import Settings
from router.contracts.header_rules import violations
from router.contracts.headers import CONTRACT_HEADERS
from router.operate.catalogue import RECEIVED, build_shapes
from router.serve.contract.commands.field_report import build_readers
from router.serve.contract.contract_document import build_contract_document
from tests.contracts.agreement.compare import validator_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "authors.md").read_text()
SHAPES = build_shapes()
READERS = build_readers(Settings(), SHAPES)
INBOX = "_INBOX."
CHANNELS = build_contract_document(Settings())["channels"]


class ShownMessage(Struct, frozen=True):
    """One block."""

    name: str
    subject: str
    headers: dict[str, str]
    body: Any


def read_block(name: str, text: str) -> ShownMessage:
    head, _, body = text.partition("\n\n")
    subject, *lines = head.splitlines()
    return ShownMessage(
        name, subject, dict(line.split(": ", 1) for line in lines), json.loads(body)
    )


BLOCKS = [read_block(*block) for block in re.findall(r"```([a-z-]+)\n(.*?)```", PAGE, re.DOTALL)]
MESSAGES = [block for block in BLOCKS if block.name != "error"]


def named(blocks: list[ShownMessage]) -> list[str]:
    return [f"{block.name} {block.subject}" for block in blocks]


@pytest.mark.parametrize("block", MESSAGES, ids=named(MESSAGES))
def test_each_message_is_valid_and_read(block: ShownMessage) -> None:
    validator_of(SHAPES[block.name]).validate(block.body)
    assert READERS[block.name](orjson.dumps(block.body), block.headers).fault is None


@pytest.mark.parametrize("block", MESSAGES, ids=named(MESSAGES))
def test_each_message_is_on_a_subject_that_carries_it(block: ShownMessage) -> None:
    if block.subject.startswith(INBOX):
        assert block.name in CHANNELS["inbox"]["messages"]
        return
    carrying = [
        channel
        for channel in CHANNELS.values()
        if channel["address"] and _is_of(channel["address"], block.subject)
    ]
    exact = [channel for channel in carrying if channel["address"] == block.subject]
    assert [block.name in channel["messages"] for channel in exact or carrying] == [True]


@pytest.mark.parametrize(
    "block",
    [block for block in MESSAGES if SHAPES[block.name].direction == RECEIVED],
    ids=lambda block: block.name,
)
def test_no_message_to_the_router_breaks_a_rule_of_its_headers(block: ShownMessage) -> None:
    tenant = block.body.get("tenant_id") or block.body.get("message", {}).get("tenant_id")
    assert list(violations(block.headers, tenant)) == []
    if CONTRACT_HEADERS & block.headers.keys():
        assert block.headers["Nats-Msg-Id"]


def test_the_page_shows_every_message_of_a_worker_an_extension_and_a_provider() -> None:
    elsewhere = {
        "usage",
        "alert",
        "violation",
        "audit",
        "dead-letter",
        "ingress",
        "ingress-ack",
        "envelope",
    }
    assert {block.name for block in MESSAGES} == set(SHAPES) - elsewhere


def test_an_error_has_the_headers_that_the_router_reads() -> None:
    (error,) = (block for block in BLOCKS if block.name == "error")
    assert error.headers.keys() == {"Nats-Service-Error-Code", "Nats-Service-Error"}
    assert set(error.body["error"]) == {"code", "message", "field"}


def _is_of(address: str, subject: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", "[^.]+", re.escape(address))
    return re.fullmatch(pattern, subject) is not None
