"""The requests of both tenants, and what an answer says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from tests.rigs.neighbours.wire import publish_frame

DECIDE = "beamline.router.v1.decide"
RESULTS = "caf.exec.result.v1"
INVOKE = "beamline.provider.v1.invoke"
STREAM = f"{INVOKE}.stream"
PATIENCE_S = 5.0

QUIET, LOUD = "quiet", "loud"  # the tenants
PROVIDERS = ("openai", "anthropic", "local")  # of the policy that both use
DECIDED, BY_SERVER, GARBAGE = "decided", "refused by the server", "garbage"

_CODE = re.compile(rb'"(?:error_)?code":\s*"([A-Za-z0-9_]{1,64})"')
_TEXT = "Hello there, what is the weather like in Lisbon this afternoon?"

CONTEXT: Mapping[str, object] = {"user_id": "u", "lang": "en"}

Frame = Callable[[int, str], bytes]  # number, inbox -> what is sent


def read_verdict(body: bytes) -> str:
    """`decided`, the code of an error; what a stream said that did not take a request; or
    `garbage`.
    """
    if body.startswith(b'{"ok":true') or b'"status":"success"' in body:
        return DECIDED
    if b'"err_code":' in body:
        return BY_SERVER
    found = _CODE.search(body)
    return found[1].decode() if found is not None else GARBAGE


def request_body(
    tenant: str,
    name: str,
    *,
    policy: str = "default",
    payload: str = _TEXT,
    message_type: str = "chat",
    push: bool = False,
    context: Mapping[str, object] = CONTEXT,
) -> bytes:
    """A decide request, about 300 bytes."""
    body: dict[str, object] = {
        "version": "1",
        "request_id": name,
        "tenant_id": tenant,
        "policy_id": policy,
        "message": {
            "message_id": name,
            "message_type": message_type,
            "payload": payload,
            "metadata": {"source": "gateway"},
        },
        "context": context,
    }
    return json.dumps({**body, "push_assignment": True} if push else body).encode()


def header_lines(name: str) -> str:
    return f"Nats-Msg-Id: {name}\r\n"


def request_frame(subject: str, body: bytes, name: str, inbox: str) -> bytes:
    """One request as a careful client sends it: with a message id, and its inbox."""
    return publish_frame(subject, body, reply=inbox, headers=header_lines(name))


def invocation_body(tenant: str, name: str, provider: str) -> bytes:
    return json.dumps(
        {"provider_id": provider, "tenant_id": tenant, "message_id": name, "body": "hello"}
    ).encode()
