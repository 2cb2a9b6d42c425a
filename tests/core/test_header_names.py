"""Names of headers in any case, and which of two spellings holds."""

import re
from pathlib import Path

import pytest

from router.core.header_names import READ_HEADERS, restore_case

ROUTER = Path(__file__).parents[2] / "router"


@pytest.mark.parametrize("written", ["traceparent", "Traceparent", "TRACEPARENT", "TraceParent"])
def test_a_name_that_is_read_is_found_in_any_case(written: str) -> None:
    assert restore_case({"X-Own": "1", written: "v", "Y": "2"}) == {
        "X-Own": "1",
        "traceparent": "v",
        "Y": "2",
    }


def test_of_two_spellings_the_exact_one_holds_else_the_first() -> None:
    assert restore_case({"Tenant_id": "evil", "tenant_id": "acme"})["tenant_id"] == "acme"
    assert restore_case({"TENANT_ID": "first", "Tenant_Id": "second"}) == {"tenant_id": "first"}


@pytest.mark.parametrize("name", ["nats-msg-id", "NATS-MSG-ID", "Nats-Ttl", "x-own", "X-OWN"])
def test_other_names_and_the_servers_are_left_as_they_are(name: str) -> None:
    assert restore_case({name: "v"}) == {name: "v"}


def test_each_header_that_is_read_by_a_literal_name_is_in_the_list() -> None:
    texts = (
        file.read_text()
        for file in ROUTER.rglob("*.py")
        if not {"console", "gateway", "providers", "shell", "pb"} & {*file.parts}
    )
    read = {name for text in texts for name in re.findall(r'headers\.get\("([\w-]+)"', text)}
    servers = re.compile("Nats-|KV-|Status$|Description$|accept$|content-type$")
    assert {name for name in read if not servers.match(name)} <= READ_HEADERS
