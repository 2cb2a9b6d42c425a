"""All settings: read once, frozen, and shown by `router config`.

    settings        the tree of groups: connection, consumers, storage, service
    subscriptions   every subscription, declared once: its section and its stream are part of the
                    tree
    names           which spellings mean which setting: ours and the specifications'
    load            file, environment, command line -> (name, value, where it was given): layers
                    laid over one another, checked,
                    or refused with the key's name
    partitions      the settings for each partition that an instance stands by for
    rules           what two settings must be to each other
    describe        every setting as a row, secrets hidden

Processes and commands read them; what decides gets the plain values that it needs.
"""

from __future__ import annotations

from router.bus.bus_settings import BusConfig
from router.config.describe import Row, describe
from router.config.load import Loaded, load
from router.config.partitions import list_standby, select_partition
from router.config.service import (
    AdminConfig,
    ConsoleConfig,
    DeadLetterConfig,
    HttpConfig,
    LogConfig,
    MetricsConfig,
)
from router.config.settings import Settings
from router.config.storage import BucketsConfig, StreamsConfig
from router.config.subscriptions import DECIDE, SUBSCRIPTIONS, SubscriptionSpec
from router.decide.settings import AssignmentConfig, DecideConfig, IngressConfig
from router.delivery.settings import (
    AdmissionConfig,
    BucketConfig,
    ConsumerConfig,
    DrainConfig,
    NatsConfig,
    OptionalConsumerConfig,
    ReplyConfig,
    StreamConfig,
)

__all__ = [
    "DECIDE",
    "SUBSCRIPTIONS",
    "AdminConfig",
    "AdmissionConfig",
    "AssignmentConfig",
    "BucketConfig",
    "BucketsConfig",
    "BusConfig",
    "ConsoleConfig",
    "ConsumerConfig",
    "DeadLetterConfig",
    "DecideConfig",
    "DrainConfig",
    "HttpConfig",
    "IngressConfig",
    "Loaded",
    "LogConfig",
    "MetricsConfig",
    "NatsConfig",
    "OptionalConsumerConfig",
    "ReplyConfig",
    "Row",
    "Settings",
    "StreamConfig",
    "StreamsConfig",
    "SubscriptionSpec",
    "describe",
    "list_standby",
    "load",
    "select_partition",
]
