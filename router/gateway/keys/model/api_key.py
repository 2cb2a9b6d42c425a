"""An API key: its text, its rights, its document, and the table that finds it.

    rk_0f3a9c21b7d4_9b0e…    what the client sends
       key id       secret: 64 hexadecimal digits

The id is public: lists, audit events and pages name a key by it. The secret is shown once, when the
key is made. The document holds its SHA-256 alone. A fast hash is right here: a secret of 256 random
bits cannot be found by trying, however fast each try is. A slow hash protects what people choose.
The gateway hashes for every request, so a slow one would be a way to keep it busy.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from router.core import ids
from router.core.clock import format_moment
from router.core.errors import RouterError
from router.policies.model.policy import RateLimit

PREFIX = "rk_"
ID_BYTES, SECRET_BYTES = 6, 32
KEY_ID = re.compile(r"[0-9a-f]{12}")
_ID_END = len(PREFIX) + 2 * ID_BYTES
TEXT_LENGTH = _ID_END + 1 + 2 * SECRET_BYTES
MAX_NAME = 128
MAX_POLICIES = 64
MAX_KEY_BYTES = 8 * 1024  # of the document
MAX_KEYS = 20_000  # of all tenants
MAX_RATE, MAX_BURST = 100_000.0, 100_000
MAX_LIFE_MS = 3_653 * 24 * 3_600_000  # ten years


class ApiKeyError(RouterError):
    """The values make no key."""

    code = "invalid_key"


_Scoped = Annotated[str, Meta(pattern=rf"^{ids.SCOPED_PATTERN}\Z")]
_KeyId = Annotated[str, Meta(pattern=rf"^{KEY_ID.pattern}\Z")]
_Time = Annotated[int, Meta(ge=0, le=2**53)]


class ApiKey(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`policies`: what requests may name; none: any policy. `expires_ms` None: never.

    A field that this version does not know makes a document unreadable, and its key is refused: a
    limit that is not understood is not dropped.
    """

    key_id: _KeyId
    tenant_id: _Scoped
    secret_sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    created_ms: _Time
    name: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    expires_ms: _Time | None = None
    policies: Annotated[tuple[_Scoped, ...], Meta(max_length=MAX_POLICIES)] = ()
    rate: RateLimit | None = None
    replaces: _KeyId | None = None
    replaced_by: _KeyId | None = None

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def may_name(self, policy_id: str) -> bool:
        return not self.policies or policy_id in self.policies


class MadeKey(Struct, frozen=True):
    """A new key, and its text, which no other place holds."""

    key: ApiKey
    text: str


def make_key(
    tenant_id: str,
    now_ms: int,
    *,
    name: str = "",
    expires_ms: int | None = None,
    policies: Sequence[str] = (),
    rate: RateLimit | None = None,
    replaces: str | None = None,
) -> MadeKey:
    """Make a key with a random id and secret. Raises ApiKeyError, which names what is not legal."""
    key_id, secret = secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES)
    key = ApiKey(
        key_id=key_id,
        tenant_id=tenant_id,
        secret_sha256=ids.sha256_hex(secret.encode()),
        created_ms=now_ms,
        name=name,
        expires_ms=expires_ms,
        policies=tuple(policies),
        rate=rate,
        replaces=replaces,
    )
    _check_rights(key)
    if expires_ms is not None and not 0 < expires_ms - now_ms <= MAX_LIFE_MS:
        raise ApiKeyError("expires: should be a time ahead, within ten years")
    return MadeKey(key, f"{PREFIX}{key_id}_{secret}")


def read_key(document: Mapping[str, object], key_id: str) -> ApiKey:
    """Read the document that stands under this id. Raises ApiKeyError."""
    try:
        key = msgspec.convert(document, ApiKey)
    except msgspec.ValidationError as exc:
        raise ApiKeyError(f"is no key: {exc}") from None
    if key.key_id != key_id:
        raise ApiKeyError("is the key of another id")
    _check_rights(key)
    return key


def list_key_values(key: ApiKey) -> dict[str, object]:
    """The rights of a key, for lists and audit events: never its hash."""
    rate = key.rate
    values = {
        "tenant": key.tenant_id,
        "name": key.name,
        "created": format_moment(key.created_ms),
        "expires": format_moment(key.expires_ms) if key.expires_ms is not None else None,
        "policies": list(key.policies) or None,
        "rate": f"{rate.requests_per_second:g}/{rate.burst}" if rate is not None else None,
        "replaces": key.replaces,
        "replaced_by": key.replaced_by,
    }
    return {name: value for name, value in values.items() if value not in (None, "")}


def _check_rights(key: ApiKey) -> None:
    """Raises ApiKeyError."""
    if not ids.is_scoped(key.tenant_id):
        raise ApiKeyError("tenant: should be an id: A-Z a-z 0-9 _ . : - without . or _ in front")
    if len(key.name) > MAX_NAME or not key.name.isprintable():
        raise ApiKeyError(f"name: should be at most {MAX_NAME} characters that can be seen")
    if len(key.policies) > MAX_POLICIES or not all(map(ids.is_scoped, key.policies)):
        raise ApiKeyError(f"policies: should be at most {MAX_POLICIES} ids of policies")
    if key.rate is not None:
        _check_rate(key.rate)
    if len(msgspec.json.encode(key)) > MAX_KEY_BYTES:
        raise ApiKeyError(f"policies: the key's document is larger than {MAX_KEY_BYTES} bytes")


def _check_rate(rate: RateLimit) -> None:
    if not 0.001 <= rate.requests_per_second <= MAX_RATE or not 1 <= rate.burst <= MAX_BURST:
        raise ApiKeyError(
            f"rate: should be 0.001..{MAX_RATE:.0f} requests a second, and a burst of "
            f"1..{MAX_BURST}"
        )


# -- Finds the key of a text.

_NO_KEY = "0" * 2 * SECRET_BYTES  # no SHA-256 that is known of any text


def read_key_id(text: str) -> str | None:
    """The id in the text of a key; None: the text has not the shape of one. Its length is looked at
    first.
    """
    if len(text) != TEXT_LENGTH or not text.startswith(PREFIX) or text[_ID_END] != "_":
        return None
    key_id = text[len(PREFIX) : _ID_END]
    return key_id if KEY_ID.fullmatch(key_id) and text.isascii() else None


class KeyTable:
    """The keys of this process. Empty until it is filled: then every key is refused."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    def replace(self, keys: Iterable[ApiKey]) -> None:
        """All keys."""
        self._keys = {key.key_id: key for key in keys}

    def find(self, secret_text: str, now_ms: int) -> ApiKey | None:
        """The key of this text, if it is in force.

        One that is unknown, wrong, revoked or expired is None alike, after the same work: neither
        the answer nor its time tells which it was.
        """
        key_id = read_key_id(secret_text)
        if key_id is None:
            return None
        key = self._keys.get(key_id)
        is_right = hmac.compare_digest(
            ids.sha256_hex(secret_text[_ID_END + 1 :].encode()),
            key.secret_sha256 if key is not None else _NO_KEY,
        )
        return key if key is not None and is_right and not key.is_expired(now_ms) else None

    def __len__(self) -> int:
        return len(self._keys)
