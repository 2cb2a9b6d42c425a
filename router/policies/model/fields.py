"""Reading one JSON object key by key, collecting all mistakes instead of stopping at the first.

    fields = Fields(document, "providers[1]", problems)
    weight = fields.number("weight", 0, 100, default=0)      # out of bounds: a problem, and the default
    fields.close("a provider")                               # every key that was not read is unknown: a problem

JSON null means absent. Knows nothing of policies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeVar

from router.core.errors import RouterError
from router.core.masking import CUT, shorten

D = TypeVar("D")

MAX_PROBLEMS = 20  # that an error tells; of the others only the number
_MAX_PATH, _MAX_MESSAGE = 200, 400  # characters: both may quote the document


class DocumentError(RouterError):
    """A document with mistakes.

    `errors` holds the first twenty (path, message), in the order of reading, and one that counts
    those left out.
    """

    code = "invalid_document"

    def __init__(self, errors: Sequence[tuple[str, str]], more: int = 0) -> None:
        told = [
            (shorten(path, _MAX_PATH), shorten(message, _MAX_MESSAGE))
            for path, message in errors[:MAX_PROBLEMS]
        ]
        more += len(errors) - len(told)
        self.errors = (*told, *([(CUT, f"{more} more problems")] if more else []))
        super().__init__("\n".join(f"{path}: {message}" for path, message in self.errors))


class PolicyError(DocumentError):
    """A document that is no policy."""

    code = "invalid_policy"


class Problems:
    """The mistakes found so far: the first ones, and the number of the others."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []
        self._more = 0

    def add(self, path: str, message: str) -> None:
        if len(self._found) < MAX_PROBLEMS:
            self._found.append((path, message))
        else:
            self._more += 1

    def skip(self, count: int) -> None:
        """Count further problems without a message for each."""
        self._more += count

    def raise_if_any(self, error: type[DocumentError] = PolicyError) -> None:
        if self._found:
            raise error(self._found, self._more)


class Fields:
    """One object being read. Each method takes a key away; `close` reports what is left."""

    def __init__(self, document: object, path: str, problems: Problems) -> None:
        if not isinstance(document, Mapping):
            problems.add(path or "policy", "is not an object")
            document = {}
        self._unread = {key: value for key, value in document.items() if value is not None}
        self._known: list[str] = []
        self._path = path
        self.problems = problems

    def path_of(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def refuse(self, key: str, message: str) -> None:
        self.problems.add(self.path_of(key), message)

    def require(self, *keys: str) -> None:
        for key in keys:
            if key not in self._unread:
                self.refuse(key, "is required")

    def take(self, key: str) -> object:
        """The raw value, None if absent."""
        self._known.append(key)
        return self._unread.pop(key, None)

    def number(self, key: str, low: float, high: float, default: D) -> float | D:
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"{quote(value)} is not a number")
        elif not low <= value <= high:
            self.refuse(key, f"{quote(value)} is not within {low:g}..{high:g}")
        else:
            return value
        return default

    def integer(self, key: str, low: int, high: int, default: D) -> int | D:
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, f"{quote(value)} is not an integer")
        elif not low <= value <= high:
            self.refuse(key, f"{quote(value)} is not within {low}..{high}")
        else:
            return value
        return default

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.refuse(key, f"{quote(value)} is neither true nor false")
        return default

    def text(self, key: str, pattern: re.Pattern[str], default: str) -> str:
        value = self.take(key)
        if value is None:
            return default
        if isinstance(value, str) and pattern.fullmatch(value):
            return value
        self.refuse(key, f"{quote(value)} does not match {pattern.pattern}")
        return default

    def choice(self, key: str, options: Sequence[str], default: str) -> str:
        value = self.take(key)
        if value is None or value in options:
            return default if value is None else str(value)
        self.refuse(key, f"{quote(value)} is not one of {', '.join(options)}")
        return default

    def free(self, key: str) -> Mapping[str, object]:
        """An object whose content is not checked here; `{}` if absent."""
        value = self.take(key)
        if value is None or isinstance(value, Mapping):
            return {} if value is None else value
        self.refuse(key, "is not an object")
        return {}

    def child(self, key: str) -> Fields | None:
        """The object under `key`; None if absent."""
        value = self.take(key)
        return None if value is None else Fields(value, self.path_of(key), self.problems)

    def children(self, key: str) -> list[Fields]:
        """The objects of the list under `key`; empty if absent."""
        value = self.take(key)
        if value is None or isinstance(value, list):
            return [
                Fields(item, f"{self.path_of(key)}[{index}]", self.problems)
                for index, item in enumerate(value or ())
            ]
        self.refuse(key, "is not a list")
        return []

    def close(self, noun: str) -> None:
        legal = ", ".join(self._known)
        for key in islice(self._unread, MAX_PROBLEMS):
            self.refuse(str(key), f"is not a key of {noun}; legal are {legal}")
        self.problems.skip(max(0, len(self._unread) - MAX_PROBLEMS))


def quote(value: object) -> str:
    """A value for a message, cut short: documents may be a mebibyte."""
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else f"{text[:57]}..."
