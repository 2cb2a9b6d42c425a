"""Who may come in, and with what: limits before parsing, one JSON object, the api_key compared in constant time.

The key is taken off the body here, so that nothing behind the door can log, store or answer it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from router.admin.asked import Asked
from router.admin.declined import INVALID_REQUEST, UNAUTHORIZED, Declined
from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES, read_object
from router.contracts.malformed import Malformed
from router.ids import is_literal_subject

API_KEY = "api_key"


class Door:
    """`api_key` None: nobody is asked for one. `prefixes`: where answers may go, an address from outside being input;
    `refused` hears of every other one.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        prefixes: tuple[str, ...] = ("_INBOX.", "_R_."),
        max_bytes: int = MAX_PAYLOAD_BYTES,
        max_depth: int = MAX_DEPTH,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._api_key = _bytes(api_key) if api_key is not None else None
        self._prefixes = prefixes
        self._max_bytes = max_bytes
        self._max_depth = max_depth
        self._refused = refused

    def may_reach(self, address: str) -> bool:
        """Whether an answer may be sent there: answering elsewhere would write a stranger's words with our rights."""
        is_inbox = address.startswith(self._prefixes) and is_literal_subject(address)
        if address and not is_inbox:
            self._refused()
        return is_inbox

    def open(self, data: bytes, headers: Mapping[str, str]) -> Asked:
        """The request without its key; an empty body is `{}`. Raises Declined: invalid_request, unauthorized."""
        try:
            body = read_object(data, self._max_bytes, self._max_depth) if data else {}
        except Malformed as refused:
            raise Declined(INVALID_REQUEST, str(refused)) from None
        given = headers.get(API_KEY) or body.pop(API_KEY, None)
        body.pop(API_KEY, None)
        if self._api_key is not None and not (isinstance(given, str) and hmac.compare_digest(_bytes(given), self._api_key)):
            raise Declined(UNAUTHORIZED, "A valid api_key is required, in the body or as a header")
        return Asked(body)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a key from the environment may hold bytes that are no UTF-8
