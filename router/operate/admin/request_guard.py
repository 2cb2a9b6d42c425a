"""Checks a request before a service handles it: limits before parsing, one JSON object, the api_key
in constant time.

The key is removed from the body here, so that no service can log, store or answer it. Wrong keys
are counted, and while there are too many of them none is compared (`key_guesses`). Another instance
of the router sends a proof instead of the key (`proof`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.contracts.malformed import Malformed
from router.contracts.raw_json import read_around_payload
from router.delivery.wire.calls.request_server import ReplyAddresses
from router.operate.admin.key_guesses import KeyGuesses
from router.operate.admin.proof import PROOF, Proofs
from router.operate.admin.request_fields import RequestFields
from router.operate.admin.service_error import (
    INVALID_REQUEST,
    OVERLOADED,
    UNAUTHORIZED,
    ServiceError,
)

API_KEY = "api_key"
TOO_MANY_WRONG = "Too many wrong keys were given; ask again later"


class RequestGuard:
    """`api_key` None: no key is required. `key_refused` is called for every request without a valid
    key.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        addresses: ReplyAddresses | None = None,
        max_bytes: int = MAX_PAYLOAD_BYTES,
        max_depth: int = MAX_DEPTH,
        key_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._api_key = as_bytes(api_key) if api_key is not None else None
        self.proofs = Proofs(self._api_key) if self._api_key is not None else None
        self._guesses = KeyGuesses()
        self._key_refused = key_refused
        self.addresses = addresses or ReplyAddresses()
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    def open(
        self, data: bytes, headers: Mapping[str, str], subject: str = "", inbox: str = ""
    ) -> RequestFields:
        """The request without its key; an empty body is `{}`. Raises ServiceError: invalid_request,
        unauthorized, overloaded.

        `subject`: that of the request; `inbox`: its reply address.
        """
        try:
            # An operator's document may have as many values as its bytes hold: a table of prices.
            limits = (self._max_bytes, self._max_depth, self._max_bytes)
            body = read_around_payload(data, *limits) if data else {}
        except Malformed as refused:
            raise ServiceError(INVALID_REQUEST, str(refused)) from None
        given = headers.get(API_KEY) or body.pop(API_KEY, None)
        body.pop(API_KEY, None)
        if self._api_key is not None:
            self._check(self._api_key, given, inbox, self._has_proof(data, headers, subject, inbox))
        fields = RequestFields(body)
        fields.check_numbers()
        return fields

    def _check(self, api_key: bytes, given: object, inbox: str, has_proof: bool) -> None:
        if has_proof:
            return
        if given is not None:
            if not self._guesses.may_try(inbox):
                self._key_refused()
                raise ServiceError(OVERLOADED, TOO_MANY_WRONG)
            if isinstance(given, str) and hmac.compare_digest(as_bytes(given), api_key):
                self._guesses.record_right(inbox)
                return
            self._guesses.record_wrong(inbox)
        self._key_refused()
        raise ServiceError(UNAUTHORIZED, "A valid api_key is required, in the body or as a header")

    def _has_proof(self, data: bytes, headers: Mapping[str, str], subject: str, inbox: str) -> bool:
        proof = headers.get(PROOF)
        return (
            proof is not None
            and self.proofs is not None
            and self.proofs.is_valid(proof, subject, inbox, data)
        )


def as_bytes(text: str) -> bytes:
    # a key from the environment may contain bytes that are not UTF-8
    return text.encode("utf-8", "surrogatepass")
