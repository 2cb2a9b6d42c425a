"""One service as data: its subject, its description, and the function that answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from router.operate.admin.request_fields import RequestFields

Answer = Mapping[str, object]  # JSON values; `ok: true` is added

ADMIN = "beamline.router.v1.admin."
INTERNAL_PREFIX = "beamline.router.v1.internal."  # requests between instances


class Service(Struct, frozen=True):
    """`asks` and `gives` describe request and answer in `$SRV.INFO`; `answer` raises ServiceError
    to refuse.
    """

    name: str
    says: str
    asks: str
    gives: str
    answer: Callable[[RequestFields], Awaitable[Answer]]
    prefix: str = ADMIN
    is_everywhere: bool = False  # every instance answers, not one of the queue group

    @property
    def subject(self) -> str:
        return self.prefix + self.name


def drop_absent(fields: Mapping[str, object]) -> dict[str, object]:
    """An answer leaves absent fields out, instead of null (docs/reference/contracts.md#absent)."""
    return {name: value for name, value in fields.items() if value is not None}
