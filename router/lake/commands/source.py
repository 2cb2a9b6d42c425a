"""The settings' connection as options of the `jetstream` source."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.config import NatsConfig, Settings
    from router.lake.source.options import SourceOptions
    from router.lake.tables.body import EventBounds


SILENCE_MS = 15_000  # a person is waiting, and a busy server may be slow


def make_source_options(config: NatsConfig, stream: str) -> dict[str, str]:
    """Return the options that `spark.read.format("jetstream").options(…)` takes."""
    named = {
        "url": ",".join(config.url),
        "stream": stream,
        "name": config.name,
        "domain": config.js_domain,
        "credsFile": config.creds_file,
        "nkeyFile": config.nkey_file,
        "user": config.user,
        "password": config.password.get_secret_value() if config.password is not None else None,
        "token": config.token.get_secret_value() if config.token is not None else None,
        "tlsCa": config.tls_ca,
        "tlsCert": config.tls_cert,
        "tlsKey": config.tls_key,
        "tlsHostname": config.tls_hostname,
        "inboxPrefix": config.inbox_prefix,
    }
    return {name: str(value) for name, value in named.items() if value is not None}


def make_bounds(settings: Settings) -> EventBounds:
    """Return the limits of a result, widened by how long results and dead letters are stored before their event is."""
    from router.lake.tables.body import EventBounds

    results, waits_ms = settings.results, settings.streams.results.max_age_ms + settings.streams.dlq.max_age_ms
    return EventBounds(
        max_cost=Decimal(results.max_cost), max_age_ms=results.max_timestamp_age_ms + waits_ms, max_ahead_ms=results.max_timestamp_ahead_ms
    )


def read_source_options(config: NatsConfig, stream: str, *, has_headers: bool = False) -> SourceOptions:
    """Return checked options, for a reader without Spark. Raises Misconfigured."""
    from router.lake.source.options import read_options

    silence = {"timeoutMs": str(SILENCE_MS), "includeHeaders": str(has_headers).lower()}
    return read_options({**make_source_options(config, stream), **silence})
