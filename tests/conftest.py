"""What every test may ask for: a nats-server of its module's own, a client and a name of the test's
own on it; a bucket; a PostgreSQL.
"""

import itertools
import re
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings
from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.lanes import has_short_tests, is_short
from tests.support.patient_client import connect_patiently
from tests.support.same_examples import use_same_examples
from tests.support.waiting import slack

if TYPE_CHECKING:
    from xdist.remote import Producer

    from router.delivery.wire.connection import Connection
    from tests.support.buckets import Bucket
    from tests.support.distribution import UnitScheduling
    from tests.support.postgres import Postgres

TESTS = Path(__file__).parent
# ten are too many on a quiet machine; a busy one takes longer, by as much as its work waits for a
# processor
LONGEST_S = 20
NUMBERS = itertools.count(1)

# How long an example takes depends on how busy the machine is, so there is no deadline; a test that
# means a time measures it. The examples are the same in each run; `--hypothesis-profile search`
# looks for others.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("any machine", settings.get_profile("search"), derandomize=True)
settings.load_profile("any machine")
use_same_examples()

# A script that starts the suite in its background has Ctrl-C ignored, and every program under test
# would inherit that.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--short", action="store_true", help="the short lane alone (tests/lanes.toml)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The short lane imports no file that it runs no test of: imports are a good part of its
    minutes.
    """
    if not config.getoption("short") or not collection_path.is_relative_to(TESTS):
        return None
    path = f"{collection_path.relative_to(TESTS.parent).as_posix()}{'/' if collection_path.is_dir() else ''}"
    return None if has_short_tests(path) else True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "UnitScheduling | None":
    """`make test` says `--dist loadgroup`: groups as `tests.support.distribution` names them."""
    from tests.support.distribution import UnitScheduling

    return UnitScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The short lane leaves its tests; on a worker of xdist, what takes longest begins first."""
    if config.getoption("short"):
        left_out = {
            item
            for item in items
            if not is_short(item.nodeid, is_marked=item.get_closest_marker("slow") is not None)
        }
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):
        from tests.support.distribution import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.fixture(autouse=True, scope="session")
def _loggers_are_made_anew() -> Iterator[None]:
    """A module's logger must not keep the stream of whichever test used it first."""
    configure = structlog.configure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            structlog,
            "configure",
            lambda **given: configure(**{**given, "cache_logger_on_first_use": False}),
        )
        yield


@pytest.fixture(autouse=True)
def _signals_are_given_back() -> Iterator[None]:
    """A handler that a test leaves behind may end the process in the middle of another one."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One real nats-server a module; it starts in milliseconds."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A server of a test's own: it is killed, or some of its names are the same in every test."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def nats_url(broker: Broker) -> str:
    return broker.url


@pytest.fixture
async def nc(nats_url: str) -> AsyncIterator[Client]:
    """A plain nats-py client, as an author of a gateway uses it."""
    async with await connect_patiently(nats_url) as client:
        yield client


@pytest.fixture
async def connection(nats_url: str) -> AsyncIterator["Connection"]:
    """A connection as a router has it."""
    from tests.support.delivery import connected

    async with connected(nats_url) as connection:
        yield connection


@pytest.fixture
async def bucket(nats_url: str, prefix: str) -> AsyncIterator["Bucket"]:
    """A key-value bucket of the test's own. Its number: a prefix is cut short, whatever the
    parameters.
    """
    from tests.support.buckets import a_bucket

    async with a_bucket(nats_url, f"{prefix}_{next(NUMBERS)}") as bucket:
        yield bucket


@pytest.fixture
def no_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes a second for a publish ack is a busy one here, and gets no second copy of
    what it has.
    """
    from router.delivery.publish import known_effects

    monkeypatch.setattr(known_effects, "PROBE_AFTER_S", 3_600.0)


@pytest.fixture(scope="session")
def postgres_of() -> Iterator[Callable[[int], "Postgres"]]:
    """A real PostgreSQL of each major version that is asked for: no test stops it, each test makes
    a database of its own.
    """
    from tests.support.postgres import Postgres

    servers: dict[int, Postgres] = {}

    def server_of(major: int) -> Postgres:
        if major not in servers:
            # the tests of plans speak of a table without statistics
            servers[major] = Postgres(major, "autovacuum = off").start()
        return servers[major]

    yield server_of
    for server in servers.values():
        server.remove()


@pytest.fixture(scope="session")
def postgres(postgres_of: Callable[[int], "Postgres"]) -> "Postgres":
    return postgres_of(16)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A name for this test's streams and subjects, so that tests can share a server."""
    return re.sub(r"[^a-z0-9]+", "_", request.node.name.lower())[:40].strip("_")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that takes too long fails unless it is marked slow: slowness is a bug until its mark
    says why.
    """
    outcome = yield
    report = outcome.get_result()
    # A worker of xdist sends it as UTF-8, and ends at half a surrogate pair in what a test logged.
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    longest_s = LONGEST_S * slack()
    if (
        report.when == "call"
        and report.passed
        and call.duration > longest_s
        and item.get_closest_marker("slow") is None
    ):
        report.outcome = "failed"
        report.longrepr = f"took {call.duration:.1f} s; make it faster, or mark it slow and say why"
