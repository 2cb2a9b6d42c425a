"""Who may come in: the key of a request, its rate, and the wrong keys of an address.

Authorization: Bearer rk_…                  ──> its tenant, and the policies that it may name
no key, an unknown, expired or revoked one  ──> 401, all alike
wrong keys again and again of one address   ──> 429 for a while, before a key is looked up
a key above its rate                        ──> 429
"""

from __future__ import annotations

from collections.abc import Mapping

from router.contracts.decision import RATE_LIMIT_EXCEEDED
from router.core.clock import Clock, now_ms, steady
from router.core.ids import sha256_hex
from router.gateway.keys.model.api_key import ApiKey, KeyTable, read_key_id
from router.gateway.keys.model.limits import GuessLimiter, KeyRates
from router.gateway.meter import GatewayMeter
from router.gateway.model.refusal import (
    FORBIDDEN,
    INVALID_API_KEY,
    TOO_MANY_GUESSES,
    GatewayRefusal,
)

SCHEME = "bearer "


class Doorkeeper:
    """For all requests of a gateway. `now`: for waits, seconds."""

    def __init__(
        self,
        keys: KeyTable,
        meter: GatewayMeter,
        now: Clock = steady,
    ) -> None:
        self._keys = keys
        self._guesses = GuessLimiter()
        self._rates = KeyRates()
        self._meter = meter
        self._now = now

    def admit(self, headers: Mapping[str, str], address: str) -> ApiKey:
        """The key of a request. Raises GatewayRefusal."""
        now, secret = self._now(), _read_secret(headers)
        # of the whole text: who knows a key's id alone takes nothing from who has the key
        known_by = sha256_hex(secret.encode()) if read_key_id(secret) is not None else ""
        if wait_s := self._guesses.find_wait(address, known_by, now):
            text = "Too many wrong keys came from this address"
            raise self._refuse("slowed", TOO_MANY_GUESSES, text, wait_s)
        key = self._keys.find(secret, now_ms())
        if key is None:
            self._guesses.record_wrong(address, known_by, now)
            text = "No valid API key: send one as `Authorization: Bearer rk_…`"
            raise self._refuse("wrong", INVALID_API_KEY, text)
        self._guesses.record_right(address, known_by, now)
        if wait_s := self._rates.take(key, now):
            text = "This key is used above its rate"
            raise self._refuse("rate", RATE_LIMIT_EXCEEDED, text, wait_s)
        return key

    def _refuse(
        self, cause: str, code: str, text: str, wait_s: float | None = None
    ) -> GatewayRefusal:
        self._meter.on_refused_key(cause)
        wait_ms = None if wait_s is None else round(wait_s * 1000)
        return GatewayRefusal(code, text, retry_after_ms=wait_ms)


def require_policy(key: ApiKey, policy_id: str) -> None:
    """Raises GatewayRefusal where the key may not name this policy."""
    if not key.may_name(policy_id):
        text = f"This key may not name the policy {policy_id}"
        raise GatewayRefusal(FORBIDDEN, text, param="model")


def choose_usual_policy(key: ApiKey, default: str) -> str:
    """The policy of a request that names none."""
    return default if key.may_name(default) else key.policies[0]


def _read_secret(headers: Mapping[str, str]) -> str:
    given = headers.get("authorization", "")
    return given[len(SCHEME) :].strip() if given[: len(SCHEME)].lower() == SCHEME else ""
