"""The users of a console: a file of lines `name:argon2 hash[:tenant]`, read again whenever it
changes. And how often a password may be tried.

    ann:$argon2id$v=19$m=65536,t=3,p=4$…$…            sees and writes everything
    acme-ops:$argon2id$v=19$m=65536,t=3,p=4$…$…:acme  the data of tenant acme, and nothing else

`router console --hash-password` makes a hash. A user who is taken out of the file, or whose line
changes, is logged out.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from cachetools import TTLCache
from msgspec import Struct

from router.core import ids
from router.core.clock import Clock, steady
from router.core.errors import Misconfigured
from router.operate.admin.request_guard import TokenBucket

SETTING = "console.users"
MAX_FILE_BYTES = 256 * 1024
MAX_USERS = 1_000
MAX_PASSWORD = 1_024  # characters
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_HASH = re.compile(r"\$argon2(?:id|i|d)\$[A-Za-z0-9+/=,$]{16,512}")
_HASHER = PasswordHasher()


class ConsoleUser(Struct, frozen=True):
    """`tenant`: the only one whose data this user sees and writes; None: all. `password_hash`:
    empty for the admin key's holder.
    """

    name: str
    password_hash: str = ""
    tenant: str | None = None


class UserFile:
    """`path` None: there are no users."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._version: tuple[int, ...] | None = None
        self._users: Mapping[str, ConsoleUser] = {}

    def read(self) -> Mapping[str, ConsoleUser]:
        """The users as the file names them now. Raises Misconfigured: a file that cannot be read
        has no users.
        """
        if self._path is None:
            return self._users
        try:
            with self._path.open("rb") as file:
                stat = os.fstat(file.fileno())
                version = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
                if version != self._version:
                    self._version, self._users = None, {}
                    self._users = parse_users(file.read(MAX_FILE_BYTES + 1))
                    self._version = version
        except OSError as exc:
            self._version, self._users = None, {}
            raise Misconfigured(SETTING, f"cannot be read: {exc.strerror}") from exc
        return self._users


def parse_users(data: bytes) -> Mapping[str, ConsoleUser]:
    """Raises Misconfigured, with the number of the line, and nothing of what is in it."""
    if len(data) > MAX_FILE_BYTES:
        raise Misconfigured(SETTING, f"is larger than {MAX_FILE_BYTES:,} bytes")
    users: dict[str, ConsoleUser] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        user = _parse_line(text)
        if user is None:
            raise Misconfigured(
                SETTING, f"line {number} should be name:argon2 hash or name:argon2 hash:tenant"
            )
        if user.name in users or len(users) == MAX_USERS:
            raise Misconfigured(
                SETTING, f"line {number} names a user twice, or one more than {MAX_USERS:,}"
            )
        users[user.name] = user
    return users


def hash_password(password: str) -> str:
    """As a line of the file has it."""
    return _HASHER.hash(password)


def is_password(user: ConsoleUser | None, password: str) -> bool:
    """It takes the same time for a user that there is not. About 50 ms of one core and the memory
    that the hash asks for.
    """
    try:
        is_right = _HASHER.verify(
            user.password_hash if user is not None else _find_dummy(), password
        )
    except (Argon2Error, InvalidHashError):
        return False
    return is_right and user is not None


def is_same_user(one: ConsoleUser, other: ConsoleUser) -> bool:
    """Whether the line in the file is still the one by which the user logged in."""
    same_hash = hmac.compare_digest(one.password_hash.encode(), other.password_hash.encode())
    return same_hash and (one.name, one.tenant) == (other.name, other.tenant)


def _parse_line(text: str) -> ConsoleUser | None:
    name, _, rest = text.partition(":")
    password_hash, colon, tenant = rest.partition(":")
    if (
        _NAME.fullmatch(name) is None
        or _HASH.fullmatch(password_hash) is None
        or (colon and not ids.is_scoped(tenant))
    ):
        return None
    return ConsoleUser(name, password_hash, tenant or None)


_dummies: list[str] = []


def _find_dummy() -> str:
    if not _dummies:
        _dummies.append(_HASHER.hash(os.urandom(16).hex()))
    return _dummies[0]


# -- How often a password may be tried, so that guessing is slow however fast the client is, and
# cannot fill the memory.
#
#     one address     5 wrong ones at once, then one in 10 s
#     all together    50 at once, then one a second
#     at a time       one is compared, at most 8 wait: each takes 50 ms of a core and 64 MiB
#
# An address from which a user logged in lately is not kept out by the guesses of others.


ONE, ONE_PER_S = 5.0, 0.1
ALL, ALL_PER_S = 50.0, 1.0
ADDRESSES = 1_024  # remembered
TRUSTED_S = 600.0
MAX_WAITING = 8
RETRY_AFTER_S = 10


class TooManyLogins(Exception):
    """Nothing was compared."""


class LoginAttempts:
    def __init__(self, clock: Clock = steady) -> None:
        self._clock = clock
        self._all = TokenBucket(ALL, ALL_PER_S, ALL, clock())
        self._addresses: TTLCache[str, TokenBucket] = TTLCache(
            ADDRESSES, ONE / ONE_PER_S, timer=clock
        )
        self._trusted: TTLCache[str, bool] = TTLCache(ADDRESSES, TRUSTED_S, timer=clock)
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0

    @asynccontextmanager
    async def take_turn(self, address: str) -> AsyncIterator[None]:
        """Within it one password is compared. Raises TooManyLogins."""
        if self._waiting >= MAX_WAITING:
            raise TooManyLogins
        self._waiting += 1
        try:
            async with self._turn:
                # looked at in turn: of those that wait each has had its answer
                if not self._may_try(address):
                    raise TooManyLogins
                yield
        finally:
            self._waiting -= 1

    def record(self, address: str, *, is_right: bool) -> None:
        if is_right:
            self._trusted[address] = True
            return
        if address not in self._trusted:
            self._all.spend()
        self._bucket_of(address).spend()

    def _may_try(self, address: str) -> bool:
        is_known = address in self._trusted or self._all.has_token(self._clock())
        return is_known and self._bucket_of(address).has_token(self._clock())

    def _bucket_of(self, address: str) -> TokenBucket:
        bucket = self._addresses.get(address)
        if bucket is None:
            bucket = TokenBucket(ONE, ONE_PER_S, ONE, self._clock())
        # its time begins anew: it is full again when it is forgotten
        self._addresses[address] = bucket
        return bucket
