"""Requests to the operators' services by plain nats-py, without the SDK."""

from collections.abc import Mapping
from typing import Any

import orjson
from nats.aio.client import Client

from router.operate.admin.service import ADMIN

Json = dict[str, Any]
GET_DECISION = "beamline.router.v1.get_decision"


async def call(
    nc: Client, service: str, headers: Mapping[str, str] | None = None, /, **fields: object
) -> Json:
    """The answer of an admin service, by the suffix of its subject."""
    return await call_on(nc, ADMIN + service, headers, **fields)


async def call_on(
    nc: Client, subject: str, headers: Mapping[str, str] | None = None, /, **fields: object
) -> Json:
    return await call_raw(nc, subject, orjson.dumps(fields), headers)


async def call_raw(
    nc: Client, subject: str, body: bytes, headers: Mapping[str, str] | None = None
) -> Json:
    answer = await nc.request(subject, body, timeout=30, headers=dict(headers) if headers else None)
    decoded: Json = orjson.loads(answer.data)
    return decoded


def code(answer: Json) -> str:
    """Why it was declined; empty when it was not."""
    error: Json = answer.get("error", {})
    return str(error.get("code", ""))
