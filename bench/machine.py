"""Where and with what it was measured: a figure without these is a rumour."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import router
from router.process.embedded import server_binary

ROOT = Path(__file__).parent.parent
PACKAGES = ("nats-py", "orjson", "msgspec", "faststream", "protobuf")


def facts(command: str) -> dict[str, str]:
    """Name -> value, for people."""
    return {
        **origin(),
        "command": command,
        "router": router.__version__,
        "CPU": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "nats-server": _server(),
        **{package: _version(package) for package in PACKAGES},
    }


def origin() -> dict[str, str]:
    """When a page's figures were measured, and of which code: the two lines that every page of
    results has (`pages`).
    """
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit()}


def origin_lines() -> str:
    """The same as a page has them."""
    return list_facts(origin())


def list_facts(told: Mapping[str, str]) -> str:
    """Lines of a page."""
    return "\n".join(f"- {name}: {value}" for name, value in told.items())


def commit() -> str:
    """Of this checkout, and whether the product is changed since; empty without a checkout."""
    try:
        found = _git("rev-parse", "--short=8", "HEAD")
        is_changed = bool(_git("status", "--porcelain", "--untracked-files=no", "--", "router"))
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{found}, changed" if is_changed else found


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def _memory() -> str:
    if sys.platform == "win32":
        return "unknown"
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB"


def _server() -> str:
    said = subprocess.run(
        [server_binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return said.split("v")[-1].strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
