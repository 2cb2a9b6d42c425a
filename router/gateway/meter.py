"""What a gateway counts, as metrics (docs/reference/metrics.md)."""

from __future__ import annotations

from router.process.observability import Metrics


class GatewayMeter:
    """Over the metrics of this process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._streams = 0
        metrics.gateway_streams.set_function(lambda: self._streams)

    def on_request(self, api: str, status: int, tenant_id: str, seconds: float) -> None:
        tenant = self._metrics.tenant[tenant_id]
        self._metrics.gateway_requests[api, str(status), tenant] += 1
        self._metrics.gateway_request_seconds.observe(seconds)

    def on_first_byte(self, api: str, seconds: float) -> None:
        self._metrics.gateway_first_byte_seconds.observe(seconds)

    def on_stream(self, change: int) -> None:
        self._streams += change

    def on_failover(self, provider_id: str, code: str) -> None:
        self._metrics.gateway_failovers[self._metrics.provider[provider_id], code] += 1

    def on_refused_key(self, cause: str) -> None:
        self._metrics.gateway_keys_refused[cause,] += 1
