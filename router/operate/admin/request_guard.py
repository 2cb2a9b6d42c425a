"""Checks a request before a service handles it: limits before parsing, one JSON object, the api_key
in constant time or an instance's proof, and a reply address that is not ours.

The key is removed from the body here, so that no service can log, store or answer it. Wrong keys
are counted, and while there are too many of them none is compared (`KeyGuesses`). Another instance
of the router sends a proof instead of the key (`Proofs`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import lru_cache

from cachetools import TTLCache
from msgspec import Struct

from router.config import Settings
from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.contracts.malformed import Malformed
from router.contracts.raw_json import read_around_payload
from router.core.clock import Clock, now_ms, steady
from router.delivery.wire.calls.request_server import ReplyAddresses
from router.delivery.wire.connection import Connection
from router.operate.admin.service import (
    INVALID_REQUEST,
    OVERLOADED,
    UNAUTHORIZED,
    RequestFields,
    ServiceError,
)
from router.process.observability import LogRateLimit, Metrics, events, logs

# -- Limits wrong api_keys, so that guessing a key is slow however fast the client is.
#
# A client is identified by its inbox (the first two tokens: one connection). Above the limit no
# key is compared, so a right key among too many wrong ones does not succeed. A client that
# recently sent the right key is always checked: a flood of guesses does not lock out an operator.
# A new connection may be refused as `overloaded` while guesses arrive from many inboxes.
#
#     one client         20 wrong keys at once, then one a second
#     all together       100 at once, then ten a second


ONE, ONE_PER_S = 20.0, 1.0
ALL, ALL_PER_S = 100.0, 10.0
CLIENTS = 1_024  # remembered; the least recently used is dropped first
TRUSTED_S = 600.0


class TokenBucket(Struct):
    """Tokens that are refilled over time."""

    most: float
    per_s: float
    left: float
    at: float

    def has_token(self, now: float) -> bool:
        self.left = min(self.most, self.left + (now - self.at) * self.per_s)
        self.at = now
        return self.left >= 1

    def spend(self) -> None:
        self.left = max(0.0, self.left - 1)


class KeyGuesses:
    """Call `may_try` before comparing a key, and `record_wrong` or `record_right` afterwards."""

    def __init__(self, clock: Clock = steady) -> None:
        self._clock = clock
        self._all = TokenBucket(ALL, ALL_PER_S, ALL, clock())
        self._clients: TTLCache[str, TokenBucket] = TTLCache(CLIENTS, ONE / ONE_PER_S, timer=clock)
        self._trusted: TTLCache[str, bool] = TTLCache(CLIENTS, TRUSTED_S, timer=clock)

    def may_try(self, inbox: str) -> bool:
        now, client = self._clock(), _client_of(inbox)
        if client in self._trusted:
            return True
        return self._all.has_token(now) and self._bucket_of(client, now).has_token(now)

    def record_wrong(self, inbox: str) -> None:
        now, client = self._clock(), _client_of(inbox)
        self._trusted.pop(client, None)
        self._all.spend()
        self._bucket_of(client, now).spend()

    def record_right(self, inbox: str) -> None:
        self._trusted[_client_of(inbox)] = True

    def _bucket_of(self, client: str, now: float) -> TokenBucket:
        bucket = self._clients.get(client)
        if bucket is None:
            bucket = self._clients[client] = TokenBucket(ONE, ONE_PER_S, ONE, now)
        return bucket


def _client_of(inbox: str) -> str:
    return ".".join(inbox.split(".", 2)[:2])


# -- A proof that an instance knows the api_key, which instances send each other instead of the
# key.
#
# Instances send requests on a subject that all of them receive, so every header is a broadcast. A
# proof is valid for one request (subject, body), one inbox and a minute: a listener can neither
# send another request with it, nor redirect the answer. The key that signs it is derived slowly
# (scrypt), because a listener may try to guess it.
#
#     Router-Proof: <milliseconds since the epoch>.<HMAC-SHA256 of time, subject, inbox and body>


PROOF = "Router-Proof"
VALID_MS = 60_000  # clocks of two hosts may differ by this
_SALT = b"router.instances.v1"


class Proofs:
    """Creates and checks proofs with one api_key."""

    def __init__(self, api_key: bytes, clock_ms: Callable[[], int] = now_ms) -> None:
        self._key = _derive_key(api_key)
        self._clock_ms = clock_ms

    def make(self, subject: str, inbox: str, body: bytes) -> str:
        at = str(self._clock_ms())
        return f"{at}.{self._digest(at, subject, inbox, body)}"

    def is_valid(self, given: str, subject: str, inbox: str, body: bytes) -> bool:
        at, _, digest = given.partition(".")
        if not (at.isascii() and at.isdigit() and len(at) <= 15 and digest.isascii()):
            return False
        is_same = hmac.compare_digest(digest, self._digest(at, subject, inbox, body))
        return is_same and abs(self._clock_ms() - int(at)) <= VALID_MS

    def _digest(self, at: str, subject: str, inbox: str, body: bytes) -> str:
        signed = "\n".join((at, subject, inbox, "")).encode("utf-8", "surrogatepass")
        return hmac.new(self._key, signed + body, hashlib.sha256).hexdigest()


@lru_cache(maxsize=1)
def _derive_key(api_key: bytes) -> bytes:
    return hashlib.scrypt(api_key, salt=_SALT, n=2**14, r=8, p=1)


# -- Checks a request before a service handles it: limits before parsing, one JSON object, the
# api_key in constant time.


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


# -- The reply addresses that this router answers: a client's inbox, never one of its own. Others
# are counted, and logged once a second.


log = logs.logger(__name__)

SHARED_INBOX_PREFIX = "_INBOX"  # every client's, where no role has a prefix of its own
MAX_ADDRESS = 128  # characters of an address in the log: clients choose it


def build_reply_addresses(
    settings: Settings, connection: Connection, metrics: Metrics, place: str
) -> ReplyAddresses:
    """`place`: the part that answers, for the log."""
    return ReplyAddresses(
        settings.reply.prefixes, own_inboxes(settings, connection), note_refused(metrics, place)
    )


def own_inboxes(settings: Settings, connection: Connection) -> tuple[str, ...]:
    """The inboxes on which the router receives its own answers: this connection's, and the role's
    where it has a prefix of its own.
    """
    prefix = settings.nats.inbox_prefix
    role = () if prefix == SHARED_INBOX_PREFIX else (f"{prefix}.",)
    return (connection.own_inboxes, *role)


def note_refused(metrics: Metrics, place: str) -> Callable[[str], None]:
    """Builds the callback for refused addresses."""
    lines = LogRateLimit()

    def note(address: str) -> None:
        metrics.replies_refused.increment()
        if lines.allow(None):
            log.warning(
                events.REPLY_REFUSED,
                place=place,
                address=address[:MAX_ADDRESS],
                so_far=metrics.replies_refused.value,
            )

    return note
