"""The rows of the matrix: each a neighbour, and how the quiet tenant asks beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tests.rigs.neighbours.asking import PATIENCE_S
from tests.rigs.neighbours.putter import COMMAND_S

# subjects that no router listens to
ELSEWHERE, ELSEWHERE_STORED = "elsewhere.unheard", "elsewhere.stored"
LATE_S = 19.0
PLAIN = ("default",)


class Service(Struct, frozen=True):
    """What the router calls. `is_neighbours`: of lower priority, as all that the neighbour runs."""

    play: str
    given: Mapping[str, Any]
    is_neighbours: bool = True


def _extension(name: str, delay_s: float, *, is_neighbours: bool = True) -> Service:
    return Service(
        "extension", {"subject": f"beamline.ext.pre.{name}.v1", "delay_s": delay_s}, is_neighbours
    )


OWN = _extension("own", 0.0, is_neighbours=False)  # the quiet tenant's extension, a quick one


class Row(Struct, frozen=True, kw_only=True):
    """`times`: the rate as a multiple of the capacity that was probed. `noise`: the row in which
    the same traffic goes past the router.

    `kinds`: what the quiet tenant asks in turn, the names of policies, or `invoke`. `seconds`:
    longer or shorter than the others.
    """

    name: str
    does: str
    play: str = "neighbour"
    given: Mapping[str, Any] = {}
    times: float | None = None
    services: tuple[Service, ...] = ()
    kinds: tuple[str, ...] = PLAIN
    noise: str | None = None
    seconds: float | None = None

    @property
    def is_noise(self) -> bool:
        return self.name.startswith("noise")


def _flood(
    name: str, does: str, *, times: float = 5.0, noise: str | None = "noise, stored", **more: object
) -> Row:
    beside = {key: more.pop(key) for key in ("services", "kinds", "seconds") if key in more}
    return Row(
        name=name, does=does, given={"what": "flood", **more}, times=times, noise=noise, **beside
    )  # type: ignore[arg-type]


FLOODS = (
    _flood("flood", "requests at 5 × the capacity, with ids and inboxes"),
    _flood("flood without ids", "the same without `Nats-Msg-Id`", has_id=False),
    _flood(
        "flood of publishes", "the same without an inbox: no answer can reach it", is_answered=False
    ),
    _flood(
        "flood as 100 tenants",
        "the same, each request by the next of a hundred tenants",
        tenants=100,
    ),
    _flood(
        "flood with a pipeline",
        "the same by a policy with an extension",
        policy="echo",
        services=(_extension("echo", 0.0),),
    ),
)
NOISES = (
    _flood(
        "noise", "the flood at a subject that no router listens to", noise=None, subject=ELSEWHERE
    ),
    _flood(
        "noise, stored",
        "the same into a stream like the router's",
        noise=None,
        subject=ELSEWHERE_STORED,
    ),
    Row(
        name="noise of pushes",
        does="the pushes, into a stream like the router's",
        given={"what": "push", "rate": 60.0, "subject": ELSEWHERE_STORED},
    ),
    Row(
        name="noise of bodies",
        does="the bodies, into a stream like the router's",
        given={
            "what": "bodies",
            "rate": 12.0,
            "burst": 36,
            "sockets": 6,
            "subject": ELSEWHERE_STORED,
        },
    ),
)
LARGE = (
    Row(
        name="pushes of 0.9 MB",
        does="60 a second, each becomes an assignment; no worker takes them",
        given={"what": "push", "rate": 60.0},
        noise="noise of pushes",
    ),
    Row(
        name="bodies of 8 MB",
        does="36 at once from six connections, then 12 a second",
        given={"what": "bodies", "rate": 12.0, "burst": 36, "sockets": 6},
        noise="noise of bodies",
    ),
    Row(
        name="names of 1 MB",
        does="40 a second: tenant, policy, type, a result's provider",
        given={"what": "names", "rate": 40.0},
        noise="noise of pushes",
    ),
)
SLOW = (
    Row(
        name="a hanging extension",
        does="200 requests at once, then 100 a second, by a policy whose extension never answers",
        given={"what": "flood", "policy": "hanging", "rate": 100.0, "burst": 200},
        services=(_extension("hanging", -1.0),),
    ),
    Row(
        name="a 19 s extension",
        does=(
            "200 requests at once, then 20 a second, by a policy whose extension answers after 19 s"
        ),
        given={"what": "flood", "policy": "late", "rate": 20.0, "burst": 200},
        services=(_extension("late", LATE_S),),
    ),
    Row(
        name="a 19 s extension, both piped",
        does="the same; every second request of the quiet tenant needs its own, quick extension",
        given={"what": "flood", "policy": "late", "rate": 20.0, "burst": 200},
        services=(_extension("late", LATE_S), OWN),
        kinds=("default", "own"),
    ),
)
OTHERS = (
    Row(
        name="forged results",
        does="200 a second: the quiet tenant's providers have timed out, says no assignment",
        given={"what": "forge", "rate": 200.0, "is_answered": False},
    ),
    Row(
        name="the largest legal policy",
        does="`router policy put` again and again",
        play="putter",
        seconds=30.0,
    ),
    Row(
        name="512 streams",
        does=(
            "of a provider that trickles, opened by one client; every second request of the "
            "quiet tenant is an invocation"
        ),
        play="streams",
        given={"count": 512},
        services=(
            Service("provider", {"name": "trickle"}),
            Service("provider", {"name": "honest"}, is_neighbours=False),
        ),
        kinds=("default", "invoke"),
    ),
)
DEAR = (
    Row(
        name="the dearest requests",
        does="14 a second of the largest, deepest requests with the most values that are legal",
        given={"what": "dear", "rate": 14.0},
        noise="noise of pushes",
    ),
    Row(
        name="30 000 made-up tenants",
        does="6 000 requests a second, each by the next of so many names",
        given={"what": "flood", "rate": 6_000.0, "tenants": 30_000},
        noise="noise, stored",
    ),
    Row(
        name="300 tenants of 15 kB",
        does="requests of 15 kB at 900 a second, each by the next of three hundred names",
        given={"what": "flood", "rate": 900.0, "tenants": 300, "size": 15_000},
        noise="noise, stored",
    ),
    Row(
        name="broken headers",
        does="2 200 requests a second whose headers no parser takes",
        given={"what": "broken", "rate": 2_200.0},
        noise="noise, stored",
    ),
    Row(
        name="pushes of 20 kB",
        does="600 a second by one tenant, each becomes an assignment; no worker takes them",
        given={"what": "push", "rate": 600.0, "size": 20_000},
        noise="noise of pushes",
    ),
)
OVERLOAD = _flood("overload", "requests at 3 × the capacity for a minute", times=3.0, seconds=60.0)

ROWS = (*NOISES, *FLOODS, *LARGE, *DEAR, *SLOW, *OTHERS, OVERLOAD)
BY_NAME = {row.name: row for row in ROWS}
# a neighbour has ended and told its figures so long after its time
LINGER_S = PATIENCE_S + COMMAND_S
