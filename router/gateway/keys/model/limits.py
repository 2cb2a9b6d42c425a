"""How often a key may be guessed, and how often one that is right may ask.

Guesses are slow however fast the client is:

    wrong keys, with less than a minute between them     the address waits
    1 to 4                                               not at all
    the 5th, 6th, 7th …                                  1 s, 2 s, 4 s … at most 60 s

No key of an address that waits is compared, except one that was right from there lately: behind one
address may stand many clients. There is no limit for all addresses together, as logins of people
have one (`shell.access.users`): a flood of guesses from many addresses would keep out every client
that is new, and a secret of 256 bits needs no such help. They are counted, for an alert.

An IPv6 address counts by its /64, which one client has to itself. The memory is bounded, and a /48
(of IPv4 a /16) that fills it drops only its own (`core.bounded_cache`).
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from router.core.bounded_cache import BoundedCache
from router.gateway.keys.model.api_key import MAX_KEYS, ApiKey
from router.policies.model.rate_limits import RateLimits

FREE = 4  # wrong keys
LONGEST_WAIT_S = 60.0
FORGET_S = 60.0  # after the wait
TRUSTED_S = 600.0
ADDRESSES = 8_192  # remembered, and as many keys that were right
MAX_ADDRESS = 64  # characters
_MOST_DOUBLINGS = 6  # the wait is at its longest by then


class WrongKeys(Struct, gc=False):
    """How many an address gave, and until when it waits."""

    count: int
    until: float


class ClientNetwork(Struct, frozen=True):
    """`name`: by which an address counts; `around`: whose part of the memory it takes."""

    name: str
    around: str


class GuessLimiter:
    """Ask `find_wait` before comparing a key; call `record_wrong` or `record_right` afterwards.

    `now`: seconds of a steady clock. `key`: the digest of its text, "" for what is none. An id
    would not do: it is public, and wrong keys with it would keep out the client that has the key.
    """

    def __init__(self, addresses: int = ADDRESSES) -> None:
        self._wrong: BoundedCache[str, WrongKeys] = BoundedCache(addresses)
        self._right: BoundedCache[str, bool] = BoundedCache(addresses)
        self.wrong = 0  # of all addresses, since the start
        self.held_back = 0  # keys that were not compared

    def find_wait(self, address: str, key: str, now: float) -> float:
        """Seconds until a key of this address is compared; 0: now."""
        network = find_network(address)
        given = self._wrong.get(network.name, now)
        if given is None or given.until <= now:
            return 0.0
        if key and self._right.get(_pair(network, key), now):
            return 0.0
        self.held_back += 1
        return given.until - now

    def record_wrong(self, address: str, key: str, now: float) -> None:
        """A key that is wrong is none that was right lately: it was revoked, or expired."""
        self.wrong += 1
        network = find_network(address)
        self._right.remove(_pair(network, key))
        before = self._wrong.get(network.name, now)
        count = (before.count if before is not None else 0) + 1
        wait = min(LONGEST_WAIT_S, 2.0 ** min(count - FREE - 1, _MOST_DOUBLINGS))
        until = now + wait if count > FREE else now
        given = WrongKeys(count, until)
        self._wrong.put(network.name, given, until + FORGET_S, now, owner=network.around)

    def record_right(self, address: str, key: str, now: float) -> None:
        """It forgives no wrong key: else who has one key could guess others without a wait."""
        network = find_network(address)
        pair = _pair(network, key)
        if self._right.find_expiry(pair) - now < TRUSTED_S / 2:
            self._right.put(pair, True, now + TRUSTED_S, now, owner=network.around)


def _pair(network: ClientNetwork, key: str) -> str:
    return f"{network.name} {key}"


def find_network(address: str) -> ClientNetwork:
    """What is no address (the path of a socket) counts by its first characters."""
    return _find_network(address[:MAX_ADDRESS])


@lru_cache(maxsize=4_096)
def _find_network(address: str) -> ClientNetwork:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return ClientNetwork(address, "")
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    if isinstance(parsed, IPv4Address):
        return ClientNetwork(str(parsed), f"{int(parsed) >> 16:x}")
    network = IPv6Address(int(parsed) >> 64 << 64)
    return ClientNetwork(f"{network}/64", f"{int(parsed) >> 80:x}")


# -- How often a key may ask.


class KeyRates:
    """A token bucket for each key, in this gateway alone: two of them let a key ask twice as often.

    A limit over all instances is a policy's (docs/reference/policies.md#shared-rate-limit). `now`:
    seconds of a steady clock.
    """

    def __init__(self) -> None:
        # as many as there are keys: no bucket in use is dropped
        self._limits = RateLimits(MAX_KEYS)

    def take(self, key: ApiKey, now: float) -> float:
        """Take a token: 0. Without one: the seconds until the next."""
        if key.rate is None:
            return 0.0
        wait_ms = self._limits.take(key.key_id, key.rate, key.tenant_id, now)
        return (wait_ms or 0) / 1000
