"""What the two distributions must hold, and must not: `check_wheel`, `check_sdist` answer with what
is wrong, a line each.
"""

from __future__ import annotations

import configparser
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

WHEEL_HAS = (
    "router/__init__.py",
    "router/__main__.py",
    "router/py.typed",
    "router/cli/project/template/policies/_shared/default.json.in",
    "router/cli/project/template/.gitignore.in",
    "router/contracts/pb/beamline/ingress/v1/ingress_pb2.py",
    "router/proto/beamline/ingress/v1/ingress.proto",
    "docs/README.md",
    "data/share/man/man1/router.1",
    "data/share/bash-completion/completions/router",
    "data/share/zsh/site-functions/_router",
    "data/share/fish/vendor_completions.d/router.fish",
    "dist-info/licenses/LICENSE",
    "dist-info/sboms/sbom.cdx.json",
)
SDIST_HAS = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "constraints.txt",
    "router/py.typed",
    "docs/reference/commands.md",
    "proto/beamline/ingress/v1/ingress.proto",
    "deploy/packaging/build_hook.py",
)
ENTRY_POINTS = {
    "console_scripts": {"router": "router.cli:main"},
    "pytest11": {"router": "router.sdk.testing.plugin"},
}
OUTSIDE = ("tests", "bench", "secrets", "clients")  # folders of the repository alone
MAX_BYTES = 5_000_000


def check_wheel(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(
            next(name for name in names if name.endswith("entry_points.txt"))
        ).decode()
        metadata = archive.read(
            next(name for name in names if name.endswith(".dist-info/METADATA"))
        ).decode()
    tops = {name.split("/")[0] for name in names} - {"router"}
    return [
        *_check_names(names, WHEEL_HAS, wheel),
        *(
            f"{top} lies beside the package"
            for top in sorted(tops)
            if not top.startswith("beamline_router-")
        ),
        *_check_entry_points(entry_points),
        *(
            f"METADATA has no {line!r}"
            for line in ("License-Expression: Apache-2.0", "Requires-Python: >=3.11")
            if line not in metadata
        ),
    ]


def check_sdist(sdist: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        return list(
            _check_names([name.partition("/")[2] for name in archive.getnames()], SDIST_HAS, sdist)
        )


def _check_names(names: Iterable[str], wanted: Iterable[str], file: Path) -> Iterator[str]:
    files = list(names)
    yield from (
        f"{one} is missing" for one in wanted if not any(name.endswith(one) for name in files)
    )
    yield from (
        f"{name} belongs to the repository alone"
        for name in files
        if name.split("/")[0] in OUTSIDE or _is_test(name)
    )
    yield from (f"{name} is compiled" for name in files if name.endswith((".pyc", ".pyo")))
    if file.stat().st_size > MAX_BYTES:
        yield f"{file.name} has {file.stat().st_size} bytes, above {MAX_BYTES}"


def _is_test(name: str) -> bool:
    """Those of the template of `router init` are of its projects."""
    return "/tests/" in name and not name.startswith("router/cli/project/template/")


def _check_entry_points(text: str) -> Iterator[str]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    for group, entries in ENTRY_POINTS.items():
        for name, target in entries.items():
            if not parser.has_option(group, name) or parser.get(group, name) != target:
                yield f"no entry point {group} {name} = {target}"
