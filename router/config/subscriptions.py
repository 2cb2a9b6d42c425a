"""Every subscription of the router, each declared once: the messages that it takes from which
stream, under which names and limits.

From a SubscriptionSpec follow

    settings      the section `{name}` and the stream `streams.{name}`, with their rules (`rules`)
                  and short names (`names`)
    topology      its stream, its durable and the subject of its dead letters
                  (`operate.topology.declared_topology`)
    consumer      its branch of the supervision tree, its metrics and its readiness
                  (`serve.subscriptions`)
    permissions   of the router, of the role that sends the messages, of operators
                  (`deploy/nats/permissions.py`)

`serve.subscriptions` joins each with its handler.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, cast

from msgspec import Struct

from router.core.setting_values import Group
from router.decide.settings import DecideConfig
from router.delivery.settings import (
    MINUTE_MS,
    ConsumerConfig,
    OptionalConsumerConfig,
    StreamConfig,
    declare_stream,
)
from router.work.settings import ResultsConfig

C_co = TypeVar("C_co", bound=ConsumerConfig, covariant=True)


class Sections(Protocol):
    """The tree of settings, as far as a spec reads it: a section of its name, and one in `streams`."""

    @property
    def streams(self) -> Group: ...


class SubscriptionSpec(Struct, Generic[C_co], frozen=True, kw_only=True):
    """One subscription. `section` and `stream` are the defaults of its settings."""

    name: str  # of its section, its stream's section, its branch of the tree
    section: C_co
    stream: StreamConfig
    sender: str  # the role in deploy/nats/accounts.conf that publishes the messages
    is_answered: bool = False  # its senders wait for replies

    def read_section(self, settings: Sections) -> C_co:
        return cast("C_co", getattr(settings, self.name))

    def read_stream(self, settings: Sections) -> StreamConfig:
        """The stream that this instance takes its messages from."""
        return self.read_section(settings).find_stream(getattr(settings.streams, self.name))


DECIDE = SubscriptionSpec(
    name="decide",
    section=DecideConfig(),
    # The server's minimum on purpose: a client's retry must be stored again
    # (docs/reference/contracts.md#decide-window).
    stream=declare_stream("ROUTER_DECIDE", days=1, mib=1024, window_ms=100),
    sender="gateway",
    is_answered=True,
)
RESULTS = SubscriptionSpec(
    name="results",
    section=ResultsConfig(),
    stream=declare_stream("ROUTER_RESULTS", days=7, mib=512, window_ms=2 * MINUTE_MS),
    sender="worker",
)
ACKNOWLEDGEMENTS = SubscriptionSpec(
    name="acks",
    section=OptionalConsumerConfig(
        subject="caf.exec.assign.v1.ack", durable="router-acks", deliver_group="router-acks-group"
    ),
    stream=declare_stream("ROUTER_ACKS", days=7, mib=256, window_ms=2 * MINUTE_MS),
    sender="worker",
)

# in the order in which they start
SUBSCRIPTIONS: tuple[SubscriptionSpec[ConsumerConfig], ...] = (DECIDE, RESULTS, ACKNOWLEDGEMENTS)
