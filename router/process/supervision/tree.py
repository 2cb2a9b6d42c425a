"""The supervision tree as data. Building one starts nothing; `supervise` runs it, `draw` prints it.

Children start in the order of the list, each one running until it first waits, and stop in the
reverse order. A child does not signal that it is ready: the broker can become unavailable at any
moment, so every child must cope with another one that is not ready anyway, also at the start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from enum import StrEnum

from msgspec import Struct


class Restart(StrEnum):
    """When a child that ended is restarted. A child that cancels itself counts as crashed."""

    PERMANENT = "permanent"  # always
    TRANSIENT = "transient"  # after a crash
    TEMPORARY = "temporary"  # never


class Strategy(StrEnum):
    """Which children are restarted with a child that ended."""

    ONE_FOR_ONE = "one_for_one"  # no other
    REST_FOR_ONE = "rest_for_one"  # those started after it, because they depend on it


class Intensity(Struct, frozen=True):
    """With more than `restarts` within `seconds` the failure is escalated."""

    restarts: int = 3
    seconds: float = 10.0


class Child(Struct, frozen=True, eq=False):
    """One coroutine. `run` is called at each start; `shutdown_s`: seconds that it has to end after
    its cancellation.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    restart: Restart = Restart.PERMANENT
    shutdown_s: float = 5.0


class Supervisor(Struct, frozen=True, eq=False):
    """Children under one strategy. As a child of another supervisor it has no deadline, because its
    own children have theirs.
    """

    name: str
    children: tuple[Child | Supervisor, ...]
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: Intensity = Intensity()
    restart: Restart = Restart.PERMANENT

    def __post_init__(self) -> None:
        names = [child.name for child in self.children]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name}: two children have the same name: {names}")


def draw(tree: Supervisor) -> str:
    """The tree as text, one node a line: names, strategies and intensities, restart rules and
    deadlines.
    """
    return "\n".join([_label(tree), *_branches(tree)])


def _branches(tree: Supervisor) -> Iterator[str]:
    for node in tree.children:
        is_last = node is tree.children[-1]
        yield ("└── " if is_last else "├── ") + _label(node)
        if isinstance(node, Supervisor):
            yield from (("    " if is_last else "│   ") + line for line in _branches(node))


def _label(node: Child | Supervisor) -> str:
    if isinstance(node, Child):
        return f"{node.name}  {node.restart}, {node.shutdown_s:g} s to stop"
    return (
        f"{node.name}  {node.strategy}, {node.intensity.restarts} restarts in "
        f"{node.intensity.seconds:g} s"
    )
