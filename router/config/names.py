"""Which spellings mean which setting.

A dot, `__` and `_` are the same: `[dlq] enabled`, `dlq_enabled`, ROUTER_DLQ__ENABLED and
ROUTER_DLQ_ENABLED are one setting. The names that the specifications give and our tree has
elsewhere are aliases; an alias with several targets speaks for every consumer, and gives way to
what names one consumer (docs/reference/contracts.md#setting-names).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from router.bus.settings import BusConfig
from router.config.settings import Settings
from router.core.setting_values import list_settings
from router.delivery.settings import ConsumerConfig


def flat(spelling: str) -> str:
    return spelling.lower().replace("__", "_").replace(".", "_")


def _keep_value(value: object) -> object:
    return value


def _milliseconds(value: object) -> object:
    """Seconds, one or a list, as whole milliseconds; ValueError for anything else."""
    parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        parts = [parts]
    try:
        return tuple(round(float(str(part)) * 1000) for part in parts)
    except (ValueError, OverflowError):
        raise ValueError("should be numbers of seconds, comma-separated") from None


class Meaning(NamedTuple):
    """The settings that a spelling sets, and how its value becomes theirs."""

    targets: tuple[str, ...]
    convert: Callable[[object], object] = _keep_value

    @property
    def is_shared(self) -> bool:
        return len(self.targets) > 1


def _list_aliases(consumers: Sequence[str]) -> dict[str, Meaning]:
    def set_for_each(field: str, convert: Callable[[object], object] = _keep_value) -> Meaning:
        return Meaning(tuple(f"{consumer}.{field}" for consumer in consumers), convert)

    def list_for_each(spelling: str, field: str) -> dict[str, Meaning]:
        return {
            spelling.format(consumer): Meaning((f"{consumer}.{field}",)) for consumer in consumers
        }

    return {
        "nats_js_max_deliver": set_for_each("max_attempts"),
        "nats_js_backoff_seconds": set_for_each("backoff_ms", _milliseconds),
        "nats_max_deliver": set_for_each("max_attempts"),
        "nats_ack_wait_ms": set_for_each("ack_wait_ms"),
        "nats_backoff_ms": set_for_each("backoff_ms"),
        **list_for_each("nats_js_durable_group_{}", "durable"),
        **list_for_each("nats_js_deliver_group_{}", "deliver_group"),
        **list_for_each("{}_max_deliver", "max_attempts"),
        "nats_subject_allowlist": Meaning(("subject_allowlist",)),
        "nats_reply_subject": Meaning(("reply.subject",)),
        "enable_usage_publish": Meaning(("usage.enabled",)),
        "assignment_subject": Meaning(("assignment.subjects",)),
        "ack_enabled": Meaning(("acks.enabled",)),
        "router_node_id": Meaning(("node_id",)),
        **{f"nats_{field}": Meaning((f"bus.{field}",)) for field in BusConfig.model_fields},
    }


# Environment variables that the specifications name, whatever their case: their own variables, and
# their setting names in capitals.
SPECIFIED = (
    *(
        "NATS_URL",
        "METRICS_TENANT_LABEL_ALLOWLIST",
        "DLQ_ENABLED",
        "DLQ_SUBJECT_PATTERN",
        "DLQ_INCLUDE_FULL_MESSAGE",
    ),
    *(
        name.upper()
        for name in _list_aliases(("decide", "results", "acks"))
        if not name.startswith("router_")
    ),
)
# of names that are probably meant for the router where they are near one of these
_FAMILIES = ("NATS_", "DLQ_", "ACK_", "SR_")
_NEAR = 0.85  # NATS_USER of the `nats` command is no NATS_URL


def find_misspelled(environ: Iterable[str]) -> list[tuple[str, str]]:
    """Variables that no source reads and that look like one of the specifications, each with the
    name that was probably meant.

    They are not refused: other programs have variables of these families too.
    """
    given = ((name, name.upper()) for name in sorted(environ))
    suspects = [
        (name, upper)
        for name, upper in given
        if upper.startswith(_FAMILIES) and upper not in SPECIFIED
    ]
    pairs = ((name, _find_near(upper)) for name, upper in suspects)
    return [(name, near) for name, near in pairs if near is not None]


def _find_near(upper: str) -> str | None:
    spellings = (upper, "NATS_" + upper.removeprefix("SR_"))
    return next(
        (
            near[0]
            for spelling in spellings
            if (near := difflib.get_close_matches(spelling, SPECIFIED, n=1, cutoff=_NEAR))
        ),
        None,
    )


# Earlier names of settings: refused, with the name to use.
RENAMED = {
    "workers": "processes",
    "mailbox_relay_lanes": "mailbox.relay.partitions",
    "evidence_timeout_ms": "effects.publish_timeout_ms",
    "evidence_retry_ms": "effects.retry_ms",
    "evidence_full_retry_ms": "effects.full_retry_ms",
    **{
        flat(f"buckets.starts.{field}"): f"buckets.attempts.{field}"
        for field in ("name", "max_bytes", "ttl_ms", "history", "replicas")
    },
}


class SettingNames:
    """The legal spellings for one tree of settings. `defaults`: the tree with nothing set."""

    def __init__(self, defaults: Settings) -> None:
        self.defaults = defaults
        self.names = {flat(setting.name): setting.name for setting in list_settings(defaults)}
        self.aliases = _list_aliases(
            [name for name, section in defaults if isinstance(section, ConsumerConfig)]
        )
        self.aliases["replicas"] = Meaning(
            tuple(name for name in self.names.values() if name.endswith(".replicas"))
        )

    def find(self, spelling: str) -> Meaning | None:
        """What a spelling sets; None: nothing has that name."""
        name = self.names.get(flat(spelling))
        return Meaning((name,)) if name else self.aliases.get(flat(spelling))

    def find_closest(self, spelling: str) -> str | None:
        """The legal name that was probably meant, dotted."""
        spellings = self.names | {alias: alias for alias in self.aliases}
        near = difflib.get_close_matches(flat(spelling), spellings, n=1)
        return spellings[near[0]] if near else None


NAMES = SettingNames(Settings())
