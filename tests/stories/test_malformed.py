"""Messages that can never be decided: an answer, one dead letter, and the next request is served as
if nothing had been.
"""

import json

import pytest
from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.requests import a_body
from tests.support.service import a_router, settings_for
from tests.support.stories import Json, a_request, ask, is_settled, read_dead_letters
from tests.support.waiting import until

MIB = 1024 * 1024
SCHEMA = "SCHEMA_VALIDATION_FAILED"
NO_HEADERS: dict[str, str] = {}

Bad = tuple[bytes, dict[str, str], str]  # data, headers, the dead letter's validation code

BAD: dict[str, Bad] = {
    "bytes": (b"\xff\xfe\x00garbage", NO_HEADERS, SCHEMA),
    "empty": (b"", NO_HEADERS, SCHEMA),
    "text": (b"not json at all", NO_HEADERS, SCHEMA),
    "cut": (b'{"message": {"tenant_id": "acme"', NO_HEADERS, SCHEMA),
    "array": (b"[1, 2, 3]", NO_HEADERS, SCHEMA),
    "nan": (
        b'{"message": {"tenant_id": "acme", "message_type": "chat", "payload": NaN}}',
        NO_HEADERS,
        SCHEMA,
    ),
    "deep": (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, NO_HEADERS, SCHEMA),
    "large": (json.dumps(a_body(payload="x" * MIB)).encode(), NO_HEADERS, "PAYLOAD_TOO_LARGE"),
    "values": (json.dumps(a_body(context={"a": [[]] * 10_000})).encode(), NO_HEADERS, SCHEMA),
    "version": (a_request("v", version="2"), NO_HEADERS, "VERSION_UNSUPPORTED"),
    "header": (a_request("h"), {"version": "2", "Nats-Msg-Id": "h"}, "VERSION_UNSUPPORTED"),
    "nothing": (b"{}", NO_HEADERS, SCHEMA),
    "tenant": (json.dumps(a_body(tenant_id=None)).encode(), NO_HEADERS, SCHEMA),
    "type": (json.dumps(a_body(message_type="")).encode(), NO_HEADERS, SCHEMA),
    "payload": (json.dumps(a_body(payload=None)).encode(), NO_HEADERS, SCHEMA),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_bad_request_ends_once(nc: Client, nats_url: str, prefix: str, bad: Bad) -> None:
    """Story 1: error reply, one dead letter, and the next request is answered as usual."""
    data, headers, code = bad
    settings = settings_for(nats_url, prefix)
    async with a_router(settings) as router:
        refusal = await ask(nc, settings, data, headers)
        assert refusal["ok"] is False
        assert refusal["error"]["code"] == "invalid_request"
        assert refusal["error"]["message"]

        assert (await ask(nc, settings, a_request("next")))["ok"] is True
        await until(lambda: is_settled(nc, settings))
        (letter,) = await read_dead_letters(nc, settings)
        assert (letter["reason"], letter["validation_error"]["code"]) == ("validation_failed", code)
        assert router.service.readiness()[settings.decide.durable].ok


async def test_a_dead_letter_too_large_for_the_server_is_stored_without_its_payload(
    nc: Client, broker: Broker, prefix: str
) -> None:
    """Story 1: oversized up to the server's limit; hash and source remain, and the next request is
    answered.
    """
    settings = settings_for(broker.url, prefix)
    largest = (
        json.dumps(a_body(payload="")).encode().replace(b'""', b'"%b"' % (b"\\n" * (4 * MIB - 100)))
    )
    assert 8 * MIB - 400 < len(largest) <= nc.max_payload
    async with a_router(settings):
        refusal = await ask(nc, settings, largest)
        assert refusal["error"]["code"] == "invalid_request"

        assert (await ask(nc, settings, a_request("next")))["ok"] is True
        (letter,) = await read_dead_letters(nc, settings)
        _is_truncated(letter)


def _is_truncated(letter: Json) -> None:
    assert letter["payload_truncated"] is True
    assert "payload" not in letter.get("message", {})
    assert len(letter["original_payload_hash"]) == 64
    assert letter["source"]["sequence"] == 1


async def test_a_payload_may_have_as_many_values_as_its_bytes_hold(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Embeddings are legal: nothing reads them here."""
    settings = settings_for(nats_url, prefix)
    async with a_router(settings):
        answer = await ask(nc, settings, json.dumps(a_body(payload=[0.5] * 100_000)).encode())
        assert answer["ok"] is True
