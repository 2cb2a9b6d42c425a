"""The TypeScript client, by Node's own test runner, against a live router."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import chromium
from tests.support.broker import Broker
from tests.support.cli import call_command
from tests.support.node import CLIENT, build_client, node_process, run_node
from tests.support.service import RouterProcess

TESTS = sorted(file.stem for file in (CLIENT / "test").glob("*.test.ts"))
PROGRAMS = {
    "decide": "decided: ",
    "publish": "stored in ROUTER_DECIDE\ndecision of order-18 is there\n",
    "stream": "you said hello (3 tokens)\n",
}
OF_ROUTER = CLIENT / "test" / "router"
DENIED = (
    (
        "authorization { users: [{user: page, password: p, permissions: {publish: {deny: "
        '"beamline.>"}}}] }'
    ),
    "no_auth_user: page",
)


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    build_client()


@pytest.fixture(scope="module")
def environ() -> Iterator[Mapping[str, str]]:
    """Where the programs find two routers, each on a server of its own: one by its defaults, one
    whose stream acknowledges publishers.
    """
    broker, other, denied = (
        Broker('websocket { listen: "127.0.0.1:-1", no_tls: true }').start(),
        Broker().start(),
        Broker(*DENIED).start(),
    )
    own = {
        "nats.url": broker.url,
        "http.port": 0,
        "extensions.dir": OF_ROUTER / "extensions",
        "reply.prefixes": "_INBOX.,_INBOX_page.",
    }
    stored = {"nats.url": other.url, "http.port": 0, "reply.confirm": "stored"}
    routers = [
        RouterProcess(settings, OF_ROUTER / "policies").start() for settings in (own, stored)
    ]
    yield {
        "NATS_URL": broker.url,
        "NATS_WS_URL": broker.websocket_url,
        "NATS_STORED_URL": other.url,
        "NATS_DENIED_URL": denied.url,
    }
    for part in (*routers, broker, other, denied):
        part.remove()


@pytest.mark.parametrize("name", TESTS)
def test_with_a_live_router(name: str, environ: Mapping[str, str]) -> None:
    done = run_node("--test", f"build/test/{name}.js", environ=environ)
    assert done.returncode == 0, done.stdout


def test_in_a_browser(environ: Mapping[str, str]) -> None:
    """Its own modules, in a page, over the server's WebSocket listener."""
    assert chromium.run_page("build/test/page.js", f"nats={environ['NATS_WS_URL']}") == {
        "a decision": "page-1",
        "a no": "policy_not_found",
        "a payload of bytes": True,
        "many at once": True,
        "a publish ack, and the decision on the reply subject": ["ROUTER_DECIDE", "page-2"],
        "a stream, from a provider that this page serves": "you said hello",
        "a closed connection": True,
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_page_does_what_it_says(name: str, environ: Mapping[str, str]) -> None:
    done = run_node(f"build/examples/{name}.js", environ["NATS_URL"], environ=environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(PROGRAMS[name])


def test_the_extension_of_the_page_keeps_the_contract_of_extensions(
    environ: Mapping[str, str],
) -> None:
    with node_process("build/examples/extension.js", environ["NATS_URL"]) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "listening on beamline.ext.validate.short_text.v1\n"
        checked = call_command(
            "extension",
            "check",
            "beamline.ext.validate.short_text.v1",
            "--strict",
            "--timeout-ms",
            "20000",
            environ=environ,
        )
        assert checked.status == 0, checked.out
        program.terminate()
        assert program.wait(60) == 0


def test_the_page_shows_the_programs_that_are_tested() -> None:
    shown = dict(
        re.findall(r"```ts (\S+)\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    )
    assert shown == {
        f"examples/{file.name}": file.read_text() for file in (CLIENT / "examples").glob("*.ts")
    }


def test_the_types_are_those_of_the_schemas(tmp_path: Path) -> None:
    call_command("contract", "schemas", str(tmp_path / "schemas"))
    done = run_node(
        "scripts/generate.mjs", str(tmp_path / "schemas"), str(tmp_path / "made"), environ={}
    )
    assert done.returncode == 0, done.stderr
    for name in ("src/messages.ts", "test/examples.ts"):
        assert (CLIENT / name).read_text() == (tmp_path / "made" / name).read_text(), (
            "run `make client-types`"
        )


def test_what_a_browser_loads_is_nothing_of_node() -> None:
    """Which modules each entry loads, as Node's loader sees it."""
    loaded = {name: _list_imports(CLIENT / "dist" / f"{name}.js") for name in ("browser", "node")}
    assert loaded["browser"] == {"@nats-io/nats-core", "@nats-io/jetstream"}
    assert loaded["node"] == {"@nats-io/nats-core", "@nats-io/jetstream", "@nats-io/transport-node"}


def _list_imports(file: Path, seen: frozenset[Path] = frozenset()) -> set[str]:
    """The packages that a module and its own modules import."""
    found: set[str] = set()
    for name in re.findall(r'(?:from|import) "([^"]+)"', file.read_text()):
        inner = (file.parent / name).resolve()
        if not name.startswith("."):
            found.add(name)
        elif inner not in seen:
            found |= _list_imports(inner, seen | {file, inner})
    return found


def test_where_node_is_not_there_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="node is not on this machine"):
        build_client()


def test_where_no_browser_is_there_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="is not tested in a browser"):
        chromium.find_browser()


def test_the_lock_file_names_no_registry_and_each_dependency_has_one_version() -> None:
    lock, package = (
        json.loads((CLIENT / name).read_text()) for name in ("package-lock.json", "package.json")
    )
    assert not [name for name, entry in lock["packages"].items() if "resolved" in entry]
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert {
        name: version
        for name, version in versions.items()
        if not version.replace(".", "").isdigit()
    } == {}
    assert {name for name in package["dependencies"] if not name.startswith("@nats-io/")} == set()
