"""The fields of an admin request, one reader each: a value of the right kind, or Declined naming the field.

null is absent, and so is an empty id (docs/contracts.md#absent).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from router import ids
from router.admin.declined import invalid, missing

SHARED = "_shared"  # every tenant's: no tenant can have this name, operators can write under it
SCOPED = "1..128 of A-Z a-z 0-9 _ . : - and not start with . or _"
OPAQUE = "1..128 printable ASCII characters without spaces"
TOKEN = "1..64 of A-Z a-z 0-9 _ -"  # noqa: S105 - a subject's
MAX_INT64 = 2**63 - 1


class Asked:
    """One request's object."""

    def __init__(self, body: Mapping[str, object]) -> None:
        self._body = body

    def without(self, *names: str) -> dict[str, object]:
        """The whole object but for these: for a service whose request is the document itself."""
        return {name: value for name, value in self._body.items() if name not in names}

    def tenant_id(self) -> str:
        return _given("tenant_id", self.maybe_tenant_id())

    def maybe_tenant_id(self) -> str | None:
        return self._text("tenant_id", ids.is_scoped, SCOPED)

    def shelf_tenant(self) -> str:
        """A tenant, or `_shared`: where policies stand."""
        return _given("tenant_id", self.maybe_shelf_tenant())

    def maybe_shelf_tenant(self) -> str | None:
        return self._text("tenant_id", lambda text: text == SHARED or ids.is_scoped(text), f"{SCOPED}, or {SHARED}")

    def policy_id(self) -> str:
        return _given("policy_id", self._text("policy_id", ids.is_scoped, SCOPED))

    def extension_id(self, name: str = "id") -> str:
        return _given(name, self._text(name, ids.is_token, TOKEN))

    def opaque(self, name: str) -> str | None:
        return self._text(name, ids.is_opaque, OPAQUE)

    def text(self, name: str) -> str | None:
        return self._text(name, lambda text: len(text) <= 256, "text of at most 256 characters")

    def flag(self, name: str) -> bool:
        """False when absent."""
        value = self._body.get(name)
        if value is not None and type(value) is not bool:
            raise invalid(name, "true or false")
        return bool(value)

    def whole(self, name: str, least: int = 1) -> int | None:
        """A whole number, `least` or more."""
        value = self._body.get(name)
        if value is None or (type(value) is int and least <= value <= MAX_INT64):
            return value
        raise invalid(name, f"a whole number, {least} or more")

    def replaces(self) -> int | None:
        """The version that the writer has seen; 0: none."""
        return self.whole("replaces", 0)

    def an_object(self, name: str) -> Mapping[str, object]:
        value = self._body.get(name)
        if value is None:
            raise missing(name)
        if type(value) is not dict:
            raise invalid(name, "an object")
        return value

    def value(self, name: str) -> object:
        """Any JSON value; None when it is absent."""
        return self._body.get(name)

    def _text(self, name: str, is_legal: Callable[[str], bool], legal: str) -> str | None:
        value = self._body.get(name)
        if value is None or value == "":
            return None
        if type(value) is not str or not is_legal(value):
            raise invalid(name, legal)
        return value


def _given(name: str, value: str | None) -> str:
    if value is None:
        raise missing(name)
    return value
