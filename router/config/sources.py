"""Where settings are given: a TOML file, the environment, the command line. Each source becomes one layer of `Given`.

`names` knows what a spelling means; `load` decides which layer wins.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from router.config.names import SPECIFIED
from router.core.errors import Misconfigured

ENVIRONMENT_PREFIX = "ROUTER_"
CONFIG_FILE = "ROUTER_CONFIG_FILE"
SERVICE_LINK = (
    "is set by Kubernetes for a Service whose name begins with router, and is no setting; "
    "say enableServiceLinks: false in the pod's spec, or give the Service another name"
)
_SERVICE_LINK = re.compile(r"ROUTER_(?=\w{1,256}\Z)(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)")


_SPECIFIED = frozenset(SPECIFIED)


class Given(NamedTuple):
    """One value as it was given; `source` is what `router config` shows, `where` what an error says."""

    spelling: str
    value: object
    source: str
    where: str


Layer = list[Given]


def from_file(path: Path | None) -> Layer:
    """The values of a TOML file. Raises Misconfigured if it cannot be read, or is not TOML."""
    if path is None:
        return []
    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except OSError as exc:
        raise Misconfigured("config_file", f"{path} cannot be read: {exc.strerror}") from exc
    except ValueError as exc:
        raise Misconfigured("config_file", f"{path} is not a TOML file: {exc}") from exc
    return [Given(key, value, "file", f"{key} in {path}") for key, value in _flatten(tree)]


def from_specifications(environ: Mapping[str, str]) -> Layer:
    """The variables that the specifications name, in either case; other NATS_* variables are not read."""
    return [Given(name.lower(), environ[name], name, name) for name in sorted(environ) if name.upper() in _SPECIFIED]


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Every ROUTER_* variable except the one with the file's name."""
    names = sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and name != CONFIG_FILE)
    return [Given(name.removeprefix(ENVIRONMENT_PREFIX), environ[name], name, name) for name in names]


def is_service_link(given: Given) -> bool:
    """Whether a variable looks like those that Kubernetes sets for a Service: ROUTER_PORT=tcp://10.0.0.1:9001, ROUTER_SERVICE_HOST."""
    is_address = given.source.startswith(ENVIRONMENT_PREFIX) and str(given.value).startswith(("tcp://", "udp://", "sctp://"))
    return is_address or _SERVICE_LINK.fullmatch(given.source) is not None


def from_command_line(overrides: Mapping[str, object]) -> Layer:
    """Options by the setting's name; None is an option that was not given."""
    return [Given(name, value, "command line", f"{name} on the command line") for name, value in overrides.items() if value is not None]


def config_file(environ: Mapping[str, str]) -> Path | None:
    name = environ.get(CONFIG_FILE)
    return Path(name) if name else None


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
