"""The package as it is built: what it holds, what it does not, and that its generated parts are
fresh. `make dist` tries it besides.
"""

import json
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from router.cli.app import PANELS
from tests.support.cli import clean_environment

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "deploy" / "packaging"


def read_script(name: str) -> dict[str, Any]:
    return runpy.run_path(str(PACKAGING / name))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    into = tmp_path_factory.mktemp("dist")
    return read_script("dist.py")["build"](into)  # type: ignore[no-any-return]


def test_both_hold_what_they_should_and_no_more(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    contents = read_script("contents.py")
    assert contents["check_sdist"](sdist) == []
    assert contents["check_wheel"](wheel) == []


def test_what_is_wrong_with_a_wheel_is_found(built: tuple[Path, Path], tmp_path: Path) -> None:
    damaged = tmp_path / built[1].name
    with zipfile.ZipFile(built[1]) as whole, zipfile.ZipFile(damaged, "w") as archive:
        for name in whole.namelist():
            if not name.endswith(("py.typed", "LICENSE")):
                archive.writestr(
                    name, whole.read(name).replace(b"router.cli:main", b"router.cli:other")
                )
        archive.writestr("tests/test_one.py", "")
        archive.writestr("router/core/clock.pyc", "")
    found = read_script("contents.py")["check_wheel"](damaged)
    assert "router/py.typed is missing" in found
    assert "dist-info/licenses/LICENSE is missing" in found
    assert "tests lies beside the package" in found
    assert "tests/test_one.py belongs to the repository alone" in found
    assert "router/core/clock.pyc is compiled" in found
    assert "no entry point console_scripts router = router.cli:main" in found


def test_the_same_files_make_the_same_wheel_also_into_a_relative_path(
    built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builds, and the trials of what is returned, stand in other directories than the caller."""
    monkeypatch.chdir(tmp_path)
    _, again = read_script("dist.py")["build"](Path("again"))
    assert again == tmp_path / "again" / built[1].name
    assert again.read_bytes() == built[1].read_bytes()


def test_the_man_page_names_every_command_and_groff_finds_nothing_wrong(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        name = next(one for one in archive.namelist() if one.endswith("share/man/man1/router.1"))
        page = archive.read(name).decode()
    assert page.startswith('.TH ROUTER 1 "" "router 0.1.0"')
    names = [name for commands in PANELS.values() for name in commands]
    assert [name for name in names if f"\n.SS router {name}" not in page] == []
    assert [line for line in page.splitlines() if line.startswith(("|", "#", "```"))] == []
    if shutil.which("groff"):
        (tmp_path / "router.1").write_text(page)
        command = ["groff", "-ww", "-man", "-Tutf8", str(tmp_path / "router.1")]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "router.bash"), ("zsh", "_router"), ("fish", "router.fish")]
)
def test_the_completions_are_those_that_the_command_prints(shell: str, file: str) -> None:
    program = "from router.cli.app import app; app(prog_name='router')"
    environ = clean_environment({"_ROUTER_COMPLETE": f"source_{shell}"})
    shown = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environ,
        check=True,
        cwd=ROOT,
    )
    assert shown.stdout == (PACKAGING / "completions" / file).read_text(), (
        f"run `_ROUTER_COMPLETE=source_{shell} router` and keep it"
    )


def test_a_completion_completes() -> None:
    environ = clean_environment(
        {"_ROUTER_COMPLETE": "complete_bash", "COMP_WORDS": "router dl", "COMP_CWORD": "1"}
    )
    program = "from router.cli.app import app; app(prog_name='router')"
    shown = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environ,
        check=True,
        cwd=ROOT,
    )
    assert shown.stdout.split() == ["dlq"]


def test_the_bill_of_materials_is_fresh_and_names_what_is_installed() -> None:
    kept = json.loads((PACKAGING / "sbom.cdx.json").read_text())
    assert read_script("sbom.py")["build_sbom"]() == kept, (
        "run `python deploy/packaging/sbom.py > deploy/packaging/sbom.cdx.json`"
    )
    names = {one["name"] for one in kept["components"]}
    assert {"nats-py", "msgspec", "psycopg", "pyspark", "jinja2", "opentelemetry-sdk"} <= names
    assert names.isdisjoint({"moto", "ruff", "mypy", "duckdb", "faststream"})
    assert {one["ref"] for one in kept["dependencies"]} == {
        one["purl"] for one in (*kept["components"], kept["metadata"]["component"])
    }


def test_a_source_distribution_holds_no_secret_that_lies_in_the_repository(tmp_path: Path) -> None:
    """It is told what to take; it is not told what to leave."""
    copy = tmp_path / "copy"
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    for name in ("router", "docs", "proto", "deploy/packaging"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("deploy/secrets/router.nk", "deploy/.env", "tests/test_one.py", "notes.txt"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("SUAM")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "sdist",
        "--directory",
        str(tmp_path / "out"),
    ]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, env=dict(os.environ))
    (sdist,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held.isdisjoint(
        {"deploy/secrets/router.nk", "deploy/.env", "tests/test_one.py", "notes.txt"}
    )
