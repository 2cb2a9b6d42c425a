"""Filters, durables and streams of an agent."""

import pytest

from router.agents.topology import AgentTopology, can_overlap, subscriptions_of, topology_of
from router.core.errors import Misconfigured


class Named:
    def __init__(self, name: str = "a", *filters: str) -> None:
        self.name = name
        self.filters = filters

    def receive(self, envelope: object) -> None: ...

    def apply(self, ctx: object, envelope: object) -> None: ...


def test_an_agent_listens_to_its_own_commands_with_a_durable_of_its_name() -> None:
    """MF-3."""
    (post,) = subscriptions_of(Named("greeter"), AgentTopology())
    assert (post.stream, post.durable, post.filters) == (
        "MESHFORGE_COMMANDS",
        "greeter_consumer",
        ("cmd.default.demo.greeter.>",),
    )
    (other,) = subscriptions_of(Named("greeter"), AgentTopology(scope="acme.live"))
    assert other.filters == ("cmd.acme.live.greeter.>",)


def test_the_durable_is_explicit_and_has_five_deliveries_on_the_server() -> None:
    """MF-3."""
    there = topology_of(subscriptions_of(Named(), AgentTopology()), AgentTopology(), "s-1")
    durable = there.consumers[0].to_json()
    assert (durable["ack_policy"], durable["max_deliver"], durable["metadata"]) == (
        "explicit",
        5,
        {"store": "s-1"},
    )


def test_the_streams_are_as_specified() -> None:
    """MF-1, MF-2."""
    streams = {spec.name: spec.to_json() for spec in AgentTopology().streams()}
    events, commands = streams["MESHFORGE_EVENTS"], streams["MESHFORGE_COMMANDS"]
    assert (events["subjects"], events["storage"], events["retention"]) == (
        ["evt.>"],
        "file",
        "limits",
    )
    assert (commands["subjects"], commands["storage"], commands["retention"]) == (
        ["cmd.>"],
        "file",
        "workqueue",
    )
    assert (
        next(spec for spec in AgentTopology(events_retention="workqueue").streams()).retention
        == "workqueue"
    )


def test_filters_of_both_streams_make_two_posts() -> None:
    posts = subscriptions_of(Named("a", "evt.x.>", "cmd.a.>", "evt.y"), AgentTopology())
    assert [(post.stream, post.filters) for post in posts] == [
        ("MESHFORGE_COMMANDS", ("cmd.a.>",)),
        ("MESHFORGE_EVENTS", ("evt.x.>", "evt.y")),
    ]


@pytest.mark.parametrize(
    "agent",
    [
        Named("a.b"),
        Named(""),
        Named("a", "other.>"),
        Named("a", "evt"),
        Named("a", "evt.a.>", "evt.*.b"),
    ],
)
def test_a_name_or_filters_that_cannot_be_are_refused(agent: Named) -> None:
    with pytest.raises(Misconfigured):
        subscriptions_of(agent, AgentTopology())


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.c", True),
        ("a.>", "a", False),
        ("a.>", "a.b.c", True),
        ("a.*.c", "a.b.>", True),
        ("a.*", "a.b.c", False),
        (">", "x", True),
    ],
)
def test_two_filters_overlap_when_one_subject_can_match_both(
    one: str, other: str, do: bool
) -> None:
    """MF-12."""
    assert can_overlap(one, other) is do
    assert can_overlap(other, one) is do
