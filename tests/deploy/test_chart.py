"""The Helm chart: rendered with each file of deploy/helm/values, and strictly what Kubernetes
knows. No cluster has run it.
"""

import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

from router import __version__
from router.config import Settings
from router.config.names import NAMES
from tests.support.deployed import DEPLOY, TOML
from tests.support.helm import CHART, VALUES, render_chart, run_helm

KUBERNETES = DEPLOY / "kubernetes"
FILES = sorted(file.stem for file in VALUES.glob("*.yaml"))
# Of the resources that other operators define, which fields of `spec` are theirs; their schemas are
# in no package.
CUSTOM: dict[tuple[str, str], set[str]] = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): {"selector", "endpoints"},
    ("monitoring.coreos.com/v1", "PrometheusRule"): {"groups"},
    ("keda.sh/v1alpha1", "ScaledObject"): {
        "scaleTargetRef",
        "minReplicaCount",
        "maxReplicaCount",
        "cooldownPeriod",
        "triggers",
    },
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): {
        *(
            "type",
            "pythonVersion",
            "mode",
            "image",
            "sparkVersion",
            "mainApplicationFile",
            "arguments",
            "restartPolicy",
        ),
        *("sparkConf", "driver", "executor"),
    },
    ("jetstream.nats.io/v1beta2", "Stream"): {
        *(
            "account",
            "name",
            "subjects",
            "maxAge",
            "maxBytes",
            "maxMsgs",
            "discard",
            "duplicateWindow",
            "retention",
            "replicas",
        ),
        *("noAck", "allowDirect", "maxMsgsPerSubject", "allowRollup", "storage"),
    },
    ("jetstream.nats.io/v1beta2", "Consumer"): {
        *(
            "account",
            "streamName",
            "durableName",
            "ackPolicy",
            "deliverPolicy",
            "replayPolicy",
            "ackWait",
            "maxAckPending",
        ),
        *("maxDeliver", "maxWaiting", "filterSubject", "metadata"),
    },
}


@functools.cache
def read_documents(name: str) -> list[dict[str, Any]]:
    return render_chart("--values", str(VALUES / f"{name}.yaml"))


def find_kinds(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["kind"], one["metadata"]["name"]): one for one in read_documents(name)}


def find_pods(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in documents:
        spec = one.get("spec", {})
        template = spec.get("template") or spec.get("jobTemplate", {}).get("spec", {}).get(
            "template"
        )
        if template is not None:
            yield template["spec"]


# -- with helm -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_what_is_rendered_is_strictly_what_kubernetes_knows(name: str) -> None:
    documents = read_documents(name)
    names = [(one["kind"], one["metadata"]["name"]) for one in documents]
    assert len(names) == len(set(names))
    assert "Secret" not in {one["kind"] for one in documents}  # secrets are named, never held
    for one in documents:
        if (fields := CUSTOM.get((one["apiVersion"], one["kind"]))) is not None:
            assert set(one["spec"]) <= fields
        else:
            kubernetes_validate.validate(one, desired_version="1.33", strict=True)


@pytest.mark.parametrize("name", FILES)
def test_every_pod_is_harmless_and_its_variables_are_settings(name: str) -> None:
    pods = [*find_pods(read_documents(name))]
    assert pods
    for pod in pods:
        assert (pod["enableServiceLinks"], pod["automountServiceAccountToken"]) == (False, False)
        assert pod["securityContext"]["runAsNonRoot"]
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {"requests", "limits"} == set(container["resources"])
        given = [one["name"] for one in container["env"]]
        assert len(given) == len(set(given))
        ours = [
            one.removeprefix("ROUTER_")
            for one in given
            if one.startswith("ROUTER_") and one != "ROUTER_CONFIG_FILE"
        ]
        assert [one for one in ours if NAMES.find(one) is None] == []
        mounted = {one["name"] for one in container["volumeMounts"]}
        assert mounted <= {one["name"] for one in pod["volumes"]} | {"store"}


def test_the_default_is_the_manifest() -> None:
    """All but the labels that say what made it, and the order of variables."""
    wanted = [
        one
        for file in ("router.yaml", "network.yaml")
        for one in yaml.safe_load_all((KUBERNETES / file).read_text())
    ]
    rendered = find_kinds("defaults")
    assert set(rendered) == {(one["kind"], one["metadata"]["name"]) for one in wanted}
    for one in wanted:
        same = rendered[one["kind"], one["metadata"]["name"]]
        for pod in find_pods([one, same]):
            pod["containers"][0]["env"].sort(key=lambda variable: variable["name"])
        assert {**same, "metadata": None} == {**one, "metadata": None}
        assert one["metadata"].get("labels", {}).items() <= same["metadata"]["labels"].items()


def test_a_login_is_the_one_that_is_named() -> None:
    def read_variables(name: str) -> set[str]:
        (pod,) = find_pods(read_documents(name))
        return {one["name"] for one in pod["containers"][0]["env"]}

    assert {"ROUTER_NATS__CREDS_FILE", "ROUTER_NATS__TLS_CA"} <= read_variables("tls")
    assert read_variables("tls").isdisjoint({"ROUTER_NATS__NKEY_FILE", "ROUTER_NATS__TLS_KEY"})
    assert "ROUTER_NATS__NKEY_FILE" in read_variables("nkeys")
    assert "ROUTER_NATS__TLS_CA" not in read_variables("nkeys")


def test_partitions_have_routers_of_their_own_that_stand_by() -> None:
    deployments = {
        name: one for (kind, name), one in find_kinds("partitions").items() if kind == "Deployment"
    }
    assert set(deployments) == {"router-p0", "router-p1", "router-p2"}
    given = {
        one["name"]: one.get("value")
        for one in deployments["router-p1"]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert (given["ROUTER_DECIDE__PARTITION"], given["ROUTER_DECIDE__STANDBY"]) == ("1", "0,2")


def test_nats_outside_is_reached_by_its_addresses_alone() -> None:
    policies = [one for one in read_documents("external-nats") if one["kind"] == "NetworkPolicy"]
    assert [one["metadata"]["name"] for one in policies] == ["router"]
    assert policies[0]["spec"]["egress"][0]["to"] == [
        {"ipBlock": {"cidr": "192.0.2.0/28"}},
        {"ipBlock": {"cidr": "2001:db8::/64"}},
    ]


def test_the_console_may_read_what_the_routers_count_and_no_page_is_open_to_all() -> None:
    kinds = find_kinds("console")
    (ingress,) = kinds["NetworkPolicy", "router"]["spec"]["ingress"]
    assert {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "router-console"}}
    } in ingress["from"]
    (ingress,) = kinds["NetworkPolicy", "router-console"]["spec"]["ingress"]
    assert ingress["from"] == [
        {"podSelector": {"matchLabels": {"beamline/console-client": "true"}}}
    ]


def test_clients_reach_the_gateway_and_prometheus_its_pages() -> None:
    kinds, config = find_kinds("gateway"), Settings().gateway
    pages, clients = kinds["NetworkPolicy", "router-gateway"]["spec"]["ingress"]
    assert [pages["ports"][0]["port"], clients["ports"][0]["port"]] == [
        config.pages_port,
        config.port,
    ]
    assert clients["from"] == [
        {"podSelector": {"matchLabels": {"beamline/gateway-client": "true"}}}
    ]
    (container,) = kinds["Deployment", "router-gateway"]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http": config.pages_port, "clients": config.port}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    service = kinds["Service", "router-gateway"]["spec"]["ports"]
    assert {port["name"]: port["port"] for port in service} == ports


def test_the_key_of_an_api_is_a_file_that_not_every_user_may_open() -> None:
    pod = find_kinds("gateway")["Deployment", "router-provider-openai"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "api"]
    args = container["args"]
    assert args[args.index("--key-file") + 1] == "/run/api/key"
    assert volume["secret"] == {"secretName": "openai-key", "defaultMode": 0o440}
    assert "--no-register" in args


def test_what_scales_leaves_the_number_of_replicas_alone_and_asks_our_metric() -> None:
    scaler, target = (
        find_kinds("autoscaling")["HorizontalPodAutoscaler", "router"],
        find_kinds("autoscaling")["Deployment", "router"],
    )
    assert "replicas" not in target["spec"]
    assert scaler["spec"]["metrics"][0]["object"]["metric"]["name"] == "router_delivery_pending"
    (trigger,) = find_kinds("everything")["ScaledObject", "router-pa"]["spec"]["triggers"]
    assert trigger["metadata"]["query"].startswith("max(router_delivery_pending{consumer=")


def test_rules_and_dashboards_are_those_of_deploy() -> None:
    everything = find_kinds("everything")
    for file in (DEPLOY / "prometheus" / "rules").glob("*.yml"):
        assert everything["PrometheusRule", f"router-{file.stem}"]["spec"] == yaml.safe_load(
            file.read_text()
        )
    shown = {
        name: text
        for one in read_documents("everything")
        if one["kind"] == "ConfigMap"
        for name, text in one["data"].items()
    }
    for file in (DEPLOY / "grafana" / "dashboards").glob("*.json"):
        assert shown[file.name] == file.read_text()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("router.replicas=0", "/router/replicas"),
        ("router.replica=2", "replica"),
        ("nats.login=password", "/nats/login"),
        ("autoscaling.kind=vpa", "/autoscaling/kind"),
        ("relay.enabled=true", "/relay/context"),
        ("gateway.replicas=0", "/gateway/replicas"),
    ],
)
def test_helm_refuses_a_wrong_value_by_its_name(given: str, named: str) -> None:
    ended = run_helm("template", "router", str(CHART), "--set", given)
    assert ended.returncode != 0
    assert named in ended.stderr.replace(".", "/")


# -- without ---------------------------------------------------------------------------------------


def merge_values(name: str) -> Any:
    def merge(below: Any, above: Any) -> Any:
        if isinstance(below, dict) and isinstance(above, dict):
            merged = {
                **below,
                **{key: merge(below.get(key), value) for key, value in above.items()},
            }
            return {key: value for key, value in merged.items() if value is not None}
        return above

    return merge(
        yaml.safe_load((CHART / "values.yaml").read_text()),
        yaml.safe_load((VALUES / f"{name}.yaml").read_text()),
    )


@pytest.mark.parametrize("name", FILES)
def test_the_values_are_legal(name: str) -> None:
    jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text())).validate(
        merge_values(name)
    )


def test_thirteen_files_of_values_are_there() -> None:
    assert {
        *(
            "defaults",
            "tls",
            "nkeys",
            "external-nats",
            "partitions",
            "workers",
            "console",
            "gateway",
            "relay",
            "inbox",
            "lake",
        )
    } < set(FILES)
    assert {"autoscaling", "everything"} < set(FILES)
    assert len(FILES) == 13


def test_versions_and_settings_are_those_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert (CHART / "files" / "router.toml").resolve() == TOML.resolve()
    python = re.search(r"^ARG PYTHON=(\d+\.\d+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert python is not None
    assert (
        f"/opt/router/lib/python{python[1]}/site-packages/"
        in (CHART / "templates" / "lake.yaml").read_text()
    )


def test_the_resources_of_nack_are_the_declared_topology() -> None:
    made = subprocess.run(
        [sys.executable, str(DEPLOY / "helm" / "nack.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout == (CHART / "files" / "nack.yaml").read_text(), (
        "run `python deploy/helm/nack.py > deploy/helm/router/files/nack.yaml`"
    )
