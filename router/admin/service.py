"""One service as data: where it is asked, what it says of itself, and the function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from router.admin.asked import Asked

Answer = Mapping[str, object]  # JSON values; `ok: true` is put beside them

ADMIN = "beamline.router.v1.admin."
INTERNAL_PREFIX = "beamline.router.v1.internal."  # what instances ask one another


class Service(Struct, frozen=True):
    """`asks` and `gives` are shapes for people, told by `$SRV.INFO`; `answer` raises Declined to say no."""

    name: str
    says: str
    asks: str
    gives: str
    answer: Callable[[Asked], Awaitable[Answer]]
    prefix: str = ADMIN
    is_everywhere: bool = False  # asked of every instance, not of one of the queue group

    @property
    def subject(self) -> str:
        return self.prefix + self.name


def present(fields: Mapping[str, object]) -> dict[str, object]:
    """What is absent is left out of an answer, never null (docs/contracts.md#absent)."""
    return {name: value for name, value in fields.items() if value is not None}
