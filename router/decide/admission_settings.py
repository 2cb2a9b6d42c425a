"""How decide requests of many tenants share one router when more come than it can answer in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from router.core import ids
from router.core.setting_values import Count, Group, Millis, OptionalMillis, split_list

MAX_WEIGHT = 1_000


def _weight(text: str) -> str:
    tenant, equals, weight = text.partition("=")
    is_legal = (
        equals
        and ids.is_scoped(tenant)
        and weight.isascii()
        and weight.isdecimal()
        and len(weight) <= 4
    )
    if not (is_legal and 1 <= int(weight) <= MAX_WEIGHT):
        raise ValueError(
            f"should be tenant=weight with a weight of 1 to {MAX_WEIGHT}, such as acme=4"
        )
    return text


Weights = Annotated[
    tuple[Annotated[str, AfterValidator(_weight)], ...], BeforeValidator(split_list)
]


class AdmissionConfig(Group):
    """Admission: who is answered first, who hears `overloaded`, and whose request is no longer
    worth an answer.
    """

    fair_after_ms: OptionalMillis = Field(
        default=250,
        description=(
            "with a backlog deeper than this, requests are answered from their live copy, by "
            "tenant, milliseconds; empty = never"
        ),
    )
    overloaded_after_ms: Millis = Field(
        default=2_000,
        description=(
            "with a backlog deeper than this, what is above its tenant's share is answered "
            "overloaded, milliseconds"
        ),
    )
    queue: Count = Field(
        default=1024, description="live requests that wait; one tenant may have as many as are free"
    )
    queue_bytes: Count = Field(default=32 * 1024 * 1024, description="the same in bytes")
    tenant_weights: Weights = Field(
        default=(),
        description="tenant=weight, comma-separated: turns that a tenant gets; 1 unless named",
    )
    patience_ms: Millis = Field(
        default=10_000,
        description=(
            "a request that names its inbox and pushes nothing is answered expired when it "
            "waited longer, milliseconds"
        ),
    )

    @property
    def weights(self) -> Mapping[str, int]:
        return {
            tenant: int(weight)
            for tenant, _, weight in (text.partition("=") for text in self.tenant_weights)
        }
