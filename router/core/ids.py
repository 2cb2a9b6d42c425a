"""Names that come from outside, checked before they become a subject, a key, a path or a label.

Every rule here is one line of docs/reference/contracts.md#ids or docs/reference/contracts.md#keys;
`key` is the only way an id becomes part of a bucket's key.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

MAX_NAME = 128  # characters of an id
MAX_TYPE = 256  # characters of a message's or a job's type
MAX_SUBJECT = 1024  # characters

# The same rules as text, for the published schemas (`contracts.shapes`).
OPAQUE_PATTERN = r"[!-~]{1,128}"
SCOPED_PATTERN = r"[A-Za-z0-9:-][A-Za-z0-9_.:-]{0,127}"
NAME_PATTERN = r"[A-Za-z0-9_-]{1,64}"
PROVIDER_PATTERN = r"[A-Za-z0-9_.:-]{1,128}"  # as a policy names it

_SCOPED = re.compile(SCOPED_PATTERN)
_TOKEN = re.compile(NAME_PATTERN)
_IN_SUBJECTS = r"[^\s.*>\x00-\x20\x7f\ud800-\udfff]+"  # half a surrogate pair could never be sent
# most are; this is three times as fast as the next one
_PLAIN_SUBJECT = re.compile(r"[A-Za-z0-9_$-]++(?:\.[A-Za-z0-9_$-]++)*+")
_LITERAL = re.compile(rf"{_IN_SUBJECTS}(\.{_IN_SUBJECTS})*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]*")
_PLAIN_KEYS = re.compile(r"[A-Za-z0-9_.-]*")
_KEY_UNSAFE = re.compile(rb"[^A-Za-z0-9_-]")
_ESCAPED = re.compile(rb"=([0-9A-F]{2})")
_TOKEN_LETTERS = 11  # 66 random bits
_BLOCK_BYTES = 33 * 64  # of the kernel's randomness at once: 256 tokens
# ours, fixed for ever: derived ids hang on it
_NAMESPACE = uuid.UUID("6f0e1b0a-3d5c-5c8e-9a53-0d9a7a5b7c11").bytes
_VARIANTS = {digit: f"{int(digit, 16) & 3 | 8:x}" for digit in "0123456789abcdef"}


def is_opaque(text: str) -> bool:
    """1..128 printable ASCII characters without a space: request, message, assignment, trace, run,
    flow, step ids.
    """
    # half the time of a regular expression
    return 0 < len(text) <= MAX_NAME and text.isascii() and text.isprintable() and " " not in text


def is_scoped(text: str) -> bool:
    """A tenant or policy id: `[A-Za-z0-9_.:-]{1,128}`, not starting with `.` or `_` (`_shared` is
    ours).
    """
    return _SCOPED.fullmatch(text) is not None


class ScopedNames(dict[str, bool]):
    """`is_scoped` with its answers kept: tenants and policies are few and come back. `names[text]`
    costs a look.

    A text that is too long to be a name is answered and never kept: what is kept is at most `limit`
    times 128 characters.
    """

    def __init__(self, limit: int = 4096) -> None:
        super().__init__()
        self._limit = limit

    def __missing__(self, text: str) -> bool:
        if len(text) > MAX_NAME:
            return False
        if len(self) >= self._limit:
            self.clear()
        answer = self[text] = is_scoped(text)
        return answer


def is_token(text: str) -> bool:
    """One subject token: the id of an extension or a provider service."""
    return _TOKEN.fullmatch(text) is not None


def is_literal_subject(text: str) -> bool:
    """A subject that can be published to: no wildcard, no space, no empty token."""
    return len(text) <= MAX_SUBJECT and (
        _PLAIN_SUBJECT.fullmatch(text) is not None or _LITERAL.fullmatch(text) is not None
    )


def subject_matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a subject matches one of these patterns (`*` one token, `>` the rest); each subject
    is worked out once.
    """
    wanted = [pattern.split(".") for pattern in patterns]
    matches = lru_cache(maxsize=1024)(
        lambda subject: any(_matches(pattern, subject.split(".")) for pattern in wanted)
    )
    return lambda subject: len(subject) <= MAX_SUBJECT and matches(subject)


def key(*parts: str) -> str:
    """A bucket key: each byte outside `[A-Za-z0-9_-]` written `=XX`, parts joined by `.`; no two
    tuples share a key.
    """
    joined = ".".join(parts)
    # nearly always, and one search for all parts
    if _PLAIN_KEYS.fullmatch(joined) and joined.count(".") == len(parts) - 1:
        return joined
    return ".".join([part if _PLAIN_KEY.fullmatch(part) else _escape(part) for part in parts])


def parts_of(key_: str) -> tuple[str, ...] | None:
    """What `key` was made of; None when it was not."""
    try:
        parts = tuple(_ESCAPED.sub(_unescape, part.encode()).decode() for part in key_.split("."))
    except UnicodeDecodeError:
        return None
    return parts if key(*parts) == key_ else None


def random_tokens() -> Iterator[str]:
    """Tokens for subjects, for ever: 11 characters each, and none of them helps to guess another.
    Drawn from the kernel by the block.
    """
    while True:
        block = base64.urlsafe_b64encode(os.urandom(_BLOCK_BYTES)).decode()
        for at in range(0, len(block), _TOKEN_LETTERS):
            yield block[at : at + _TOKEN_LETTERS]


def bucket_prefix(bucket: str) -> str:
    """What the subjects of a bucket's entries begin with where they are read;
    `JetStream.write_subject` says where they are written.
    """
    return f"$KV.{bucket}."


def derived_uuid(*parts: str) -> str:
    """The same parts give the same valid UUID, on every instance and for ever: `uuid.uuid5`, at a
    third of its time.

    https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-5
    """
    text = hashlib.sha1(_NAMESPACE + "\x00".join(parts).encode(), usedforsecurity=False).hexdigest()
    return (
        f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{_VARIANTS[text[16]]}{text[17:20]}-{text[20:32]}"
    )


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _matches(pattern: list[str], tokens: list[str]) -> bool:
    for place, wanted in enumerate(pattern):
        if wanted == ">":
            return len(tokens) > place
        if place >= len(tokens) or wanted not in ("*", tokens[place]):
            return False
    return len(tokens) == len(pattern)


def _escape(part: str) -> str:
    return _KEY_UNSAFE.sub(lambda m: b"=%02X" % m.group()[0], part.encode("utf-8")).decode("ascii")


def _unescape(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match.group(1).decode())
