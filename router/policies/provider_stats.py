"""`get_provider_stats`: what is learned of each provider, by tenant. Every instance answers, with
its own figures and those of the others, and the answers are merged into one list.

The answer is bounded: at most MAX_ROWS providers, and how many were left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import structs

from router.operate.admin.service import Answer, RequestFields, Service, drop_absent
from router.policies.model.measurements import ErrorCounts, LearnedFigures, Measurements

NO_ERRORS = ErrorCounts()
MAX_ROWS = 1000  # the answer must fit into one message
FIGURES = (
    "samples, in_flight, chosen, share?, p50_latency_ms?, p95_latency_ms?, latency_ms?, "
    "cost?, success_rate, recent_success_rate?, "
    "score?, silent_s?, is_failing, errors{provider, request, rate_limit, cancelled}"
)


class ProviderStatsService:
    """`node_id`: that of this instance."""

    def __init__(self, measurements: Measurements, node_id: str) -> None:
        self._measurements = measurements
        self._node_id = node_id

    def list_services(self) -> tuple[Service, ...]:
        gives = (
            f"{{ok, router_node_id, providers[{{tenant_id, provider_id, {FIGURES}}}], left_out}}"
        )
        says = "What is learned of each provider from results"
        return (
            Service(
                "get_provider_stats", says, "{tenant_id?}", gives, self.read, is_everywhere=True
            ),
        )

    async def read(self, asked: RequestFields) -> Answer:
        tenant_id = asked.optional_tenant_id()
        tenants = self._measurements.list_tenants() if tenant_id is None else [tenant_id]
        rows = self._list_rows(tenants)
        listed = list(islice(rows, MAX_ROWS))
        return {
            "router_node_id": self._node_id,
            "providers": listed,
            "left_out": sum(1 for _ in rows),
        }

    def _list_rows(self, tenants: list[str]) -> Iterator[Mapping[str, object]]:
        for tenant_id in tenants:
            figures, errors = (
                self._measurements.figures_of(tenant_id),
                self._measurements.errors_of(tenant_id),
            )
            total = sum(known.chosen for known in figures.values())
            for name, known in sorted(figures.items()):
                told = structs.asdict(errors.get(name, NO_ERRORS))
                yield {
                    "tenant_id": tenant_id,
                    "provider_id": name,
                    **_list_fields(known, total),
                    "errors": told,
                }


def _list_fields(known: LearnedFigures, total: int) -> Mapping[str, object]:
    """`share`: of the tenant's assignments in the last one to two minutes. When a probe is due is
    an instance's own matter.
    """
    fields = {**structs.asdict(known), "share": known.chosen / total if total else None}
    del fields["probe_share"]
    return drop_absent(fields)


# -- The answers of `get_provider_stats` of all instances as one list.


def merge_stats(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each instance knows the figures of all; of two the one counts that knows more results. In
    order of tenant and provider.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for answer in answers:
        for row in answer["providers"]:
            key = row["tenant_id"], row["provider_id"]
            if key not in found or row["samples"] > found[key]["samples"]:
                found[key] = row
    return [found[key] for key in sorted(found)]


def describe_errors(row: Mapping[str, Any]) -> str | None:
    """The errors of a row by class, behind the word "fails" where strategies leave the provider
    out.
    """
    told = [f"{count} {name}" for name, count in row["errors"].items() if count]
    return ", ".join([*(["fails"] if row["is_failing"] else []), *told]) or None
