"""All settings: read once, frozen, and shown by `router config`.

    settings        the tree of groups: each stands in the room that uses it, those of no room in
                    `service`;
                    and the settings for each partition that an instance stands by for
    subscriptions   every subscription, declared once: its section and its stream are part of the
                    tree
    names           which spellings mean which setting: ours and the specifications'
    load            file, environment, command line -> (name, value, where it was given): layers
                    laid over one another, checked,
                    or refused with the key's name
    rules           what two settings must be to each other
    describe        every setting as a row, secrets hidden

The class of a room's settings stands in that room. Processes and commands read the tree; what
decides gets the classes that it needs.
"""

from __future__ import annotations

from router.config.describe import describe
from router.config.load import Loaded, load
from router.config.settings import Settings, list_standby, select_partition
from router.config.subscriptions import DECIDE, RESULTS, SUBSCRIPTIONS, SubscriptionSpec
from router.delivery.settings import NatsConfig

__all__ = [
    "DECIDE",
    "RESULTS",
    "SUBSCRIPTIONS",
    "Loaded",
    "NatsConfig",
    "Settings",
    "SubscriptionSpec",
    "describe",
    "list_standby",
    "load",
    "select_partition",
]
