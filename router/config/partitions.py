"""Which partitions of the decide subject an instance knows, and its settings for one of them
(docs/reference/contracts.md#partitions).
"""

from __future__ import annotations

from router.config.settings import Settings


def list_standby(settings: Settings) -> tuple[Settings, ...]:
    """The settings for each partition that this instance stands by for: as if it were its own, and
    it stood by for none.
    """
    return tuple(select_partition(settings, partition) for partition in settings.decide.standby)


def select_partition(settings: Settings, partition: str | None) -> Settings:
    """The settings for one partition, or for the whole subject; they stand by for none."""
    decide = settings.decide.model_copy(update={"partition": partition, "standby": ()})
    return settings.model_copy(update={"decide": decide})
