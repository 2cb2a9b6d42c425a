"""Send one request over NATS and return its answer, or an error that names the missing answerer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from router.core.errors import NoRouter, Unanswered

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from router.delivery.connection import Connection

NO_HEADERS: Mapping[str, str] = {}


async def request(
    connection: Connection,
    subject: str,
    body: bytes,
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    timeout_s: float = 5.0,
    is_router: bool = False,
) -> Msg:
    """Return the first answer. Raises Unanswered; NoRouter if nothing listens on the subject of a router's service."""
    import nats.errors

    try:
        return await connection.request(subject, body, timeout=timeout_s, headers=dict(headers) or None)
    except nats.errors.NoRespondersError:
        raise (NoRouter(f"no router listens on {subject}") if is_router else Unanswered(f"no service listens on {subject}")) from None
    except (nats.errors.Error, TimeoutError):
        raise Unanswered(f"{subject} did not answer within {timeout_s:g} s") from None
