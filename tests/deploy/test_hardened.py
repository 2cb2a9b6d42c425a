"""What is shipped to run may do no more than it needs: no root, no writing, no well-known password,
no open port.
"""

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.test_files import COMPOSE, DEPLOY, DOCKERFILE, container, documents, services

NETWORK = DEPLOY / "kubernetes" / "network.yaml"
FOREIGN = ("nats", "prometheus", "grafana")
EXACT = re.compile(r"[a-z/]+:v?\d+\.\d+\.\d+(-[a-z]+)?\$\{[A-Z]+_DIGEST:-\}")


def policies() -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(NETWORK.read_text())}


@pytest.mark.parametrize("name", sorted(services()))
def test_a_service_of_compose_may_do_nothing_that_it_need_not(name: str) -> None:
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["ulimits"] == {"core": 0}
    assert service["user"].startswith("${OWNER_UID:?")
    assert "privileged" not in service


@pytest.mark.parametrize("name", sorted(services()))
def test_a_service_of_compose_has_limits(name: str) -> None:
    service = services()[name]
    assert re.fullmatch(r"\d+(m|g)", service["mem_limit"])
    assert service["pids_limit"] <= 512


@pytest.mark.parametrize("name", FOREIGN)
def test_an_image_of_others_is_pinned_by_its_exact_version_and_has_a_place_for_its_digest(
    name: str,
) -> None:
    assert EXACT.fullmatch(services()[name]["image"]), services()[name]["image"]


def test_the_base_image_is_pinned_and_has_a_place_for_its_digest() -> None:
    text = DOCKERFILE.read_text()
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+-slim-\w+$", text, re.MULTILINE)
    assert text.count("FROM python:${PYTHON}${PYTHON_DIGEST}") == 2


def test_no_password_is_a_published_default() -> None:
    """Grafana's own default is admin; a variable that is missing stops the start."""
    given = services()["grafana"]["environment"]
    assert given["GF_SECURITY_ADMIN_PASSWORD"].startswith("${GRAFANA_PASSWORD:?")
    assert (given["GF_AUTH_ANONYMOUS_ENABLED"], given["GF_USERS_ALLOW_SIGN_UP"]) == (
        "false",
        "false",
    )
    assert not re.search(
        r"(?i)(password|token|secret)[A-Z_]*: *[\"']?[a-z0-9]+[\"']?$",
        COMPOSE.read_text(),
        re.MULTILINE,
    )


def test_what_a_service_writes_lies_in_a_directory_of_the_owner() -> None:
    """A volume made by Docker belongs to root, and the services do not run as root."""
    assert "volumes" not in yaml.safe_load(COMPOSE.read_text())
    for name in FOREIGN:
        written = [volume for volume in services()[name]["volumes"] if not volume.endswith(":ro")]
        assert [volume.split(":")[0] for volume in written] == [f"./data/{name}"]
    readme = (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text()
    assert all(f"deploy/data/{name}" in readme for name in FOREIGN)


# -- Kubernetes ------------------------------------------------------------------------------------


def test_the_network_policies_are_legal() -> None:
    for one in yaml.safe_load_all(NETWORK.read_text()):
        kubernetes_validate.validate(one, desired_version="1.33", strict=True)


def test_the_pages_are_open_to_prometheus_alone() -> None:
    (rule,) = policies()["router"]["ingress"]
    assert policies()["router"]["podSelector"] == documents()["Deployment"]["spec"]["selector"]
    assert rule["ports"] == [{"port": 9001, "protocol": "TCP"}]
    assert [list(source) for source in rule["from"]] == [["namespaceSelector", "podSelector"]]


def test_the_router_reaches_nats_and_names_and_nothing_else() -> None:
    spec = policies()["router"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    ports = sorted(port["port"] for rule in spec["egress"] for port in rule["ports"])
    assert ports == [53, 53, 4222]
    assert all(rule.get("to") for rule in spec["egress"])


def test_nats_is_reached_by_those_that_are_marked() -> None:
    clients = [
        rule
        for rule in policies()["nats"]["ingress"]
        if {"port": 4222, "protocol": "TCP"} in rule["ports"]
    ]
    (allowed,) = clients
    assert [source["podSelector"]["matchLabels"] for source in allowed["from"]] == [
        {"beamline/nats-client": "true"}
    ]
    assert (
        documents()["Deployment"]["spec"]["template"]["metadata"]["labels"]["beamline/nats-client"]
        == "true"
    )
    assert 8222 not in {
        port["port"] for rule in policies()["nats"]["ingress"] for port in rule["ports"]
    }


def test_the_pod_has_limits_and_runs_as_a_user_of_its_own() -> None:
    assert container()["resources"]["limits"]["memory"]
    assert container()["resources"]["limits"]["ephemeral-storage"]
    assert (
        documents()["Deployment"]["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
        is True
    )
