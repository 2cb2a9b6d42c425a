"""Builds the frozen Settings from its layers; only this file reads the environment and the settings
file.

    defaults < TOML file < the specifications' variables < ROUTER_* < command line     (docs/reference/contracts.md#settings)

with one exception of the same page: a name for one consumer (ROUTER_RESULTS__MAX_ATTEMPTS) wins
over a name for all of them (NATS_MAX_DELIVER), whichever layer has it. Each source becomes one
layer of `Given`, by the functions that stand first; `load` decides which layer wins. What a
spelling means, the module `names` knows.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from router.config import rules
from router.config.describe import format_value
from router.config.names import NAMES, RENAMED, SPECIFIED, Meaning, SettingNames, flat
from router.config.settings import Settings
from router.core.errors import Misconfigured
from router.core.setting_values import list_settings

# -- The settings, out of all layers.

NOTHING: Mapping[str, object] = MappingProxyType({})


class Loaded(NamedTuple):
    """`sources`: by dotted name, default | file | the variable's name | command line."""

    settings: Settings
    sources: Mapping[str, str]


class Placed(NamedTuple):
    value: object
    given: Given


Places = dict[str, Placed]


def load(
    file: Path | None = None,
    overrides: Mapping[str, object] = NOTHING,
    environ: Mapping[str, str] = os.environ,
    names: SettingNames = NAMES,
) -> Loaded:
    """Read every source once. Raises Misconfigured: an unknown name, an illegal value, or two
    settings that contradict each other.
    """
    layers = (
        from_file(file or config_file(environ)),
        from_specifications(environ),
        from_environment(environ),
        from_command_line(overrides),
    )
    places = _merge_layers(layers, names)
    settings = _validate(places, names)
    rules.check(settings)
    return Loaded(settings, {name: place.given.source for name, place in places.items()})


def _merge_layers(layers: Iterable[Layer], names: SettingNames) -> Places:
    shared: Places = {
        s.name: Placed(s.value, Given(s.name, s.value, "default", "the default"))
        for s in list_settings(names.defaults)
    }
    own: Places = {}
    for layer in layers:
        shared_here, own_here = _resolve_names(layer, names)
        shared |= shared_here
        own |= own_here
    return shared | own


def _resolve_names(layer: Layer, names: SettingNames) -> tuple[Places, Places]:
    """One layer by the settings' own names: values for all consumers, and values for one setting."""
    shared: Places = {}
    own: Places = {}
    for given in layer:
        meaning = names.find(given.spelling)
        if meaning is None:
            raise _unknown(given, names)
        into = shared if meaning.is_shared else own
        for name in meaning.targets:
            if name in into:
                raise Misconfigured(
                    name, f"is given twice: {into[name].given.where} and {given.where}"
                )
            into[name] = Placed(_convert(meaning, given), given)
    return shared, own


def _convert(meaning: Meaning, given: Given) -> object:
    try:
        return meaning.convert(given.value)
    except ValueError as exc:
        raise Misconfigured(given.where, f"{given.value!r} {exc}") from None


def _unknown(given: Given, names: SettingNames) -> Misconfigured:
    if is_service_link(given):
        return Misconfigured(given.where, SERVICE_LINK)
    if (renamed := RENAMED.get(flat(given.spelling))) is not None:
        return Misconfigured(given.where, f"this setting is called {renamed} now")
    near = names.find_closest(given.spelling)
    if near and given.source.startswith("ROUTER_"):
        near = "ROUTER_" + near.upper().replace(".", "__")
    hint = f"did you mean {near}?" if near else "`router config` lists every setting"
    return Misconfigured(given.where, f"there is no such setting; {hint}")


def _validate(places: Places, names: SettingNames) -> Settings:
    try:
        return type(names.defaults).model_validate(_build_tree(places))
    except ValidationError as exc:
        details = exc.errors(include_url=False, include_context=False)[0]
    # outside the handler: pydantic's own text would show a secret's value
    raise _bad_value(places, details, names)


def _build_tree(places: Places) -> dict[str, object]:
    tree: dict[str, object] = {}
    for name, place in places.items():
        *groups, leaf = name.split(".")
        node = tree
        for group in groups:
            child = node.setdefault(group, {})
            assert isinstance(child, dict)  # noqa: S101  # a name is never both a setting and a group
            node = child
        node[leaf] = place.value
    return tree


def _bad_value(places: Places, details: ErrorDetails, names: SettingNames) -> Misconfigured:
    path = ".".join(str(step) for step in details["loc"])
    setting = next(
        s for s in list_settings(names.defaults) if path == s.name or path.startswith(f"{s.name}.")
    )
    place = places[setting.name]
    legal = re.sub(r"^(Value error,|Input|Value|String|Tuple) ", "", details["msg"])
    value = format_value(setting.field, place.given.value)
    text = (
        f"{value!r} is not legal: it {legal} ({setting.field.description}). Given by "
        f"{place.given.where}"
    )
    if is_service_link(place.given):
        text = f"{place.given.where} {SERVICE_LINK}"
    return Misconfigured(setting.name, text)


# -- The sources: a TOML file, the environment, the command line.

ENVIRONMENT_PREFIX = "ROUTER_"
CONFIG_FILE = "ROUTER_CONFIG_FILE"
SERVICE_LINK = (
    "is set by Kubernetes for a Service whose name begins with router, and is no setting; "
    "say enableServiceLinks: false in the pod's spec, or give the Service another name"
)
_SERVICE_LINK = re.compile(
    r"ROUTER_(?=\w{1,256}\Z)(\w+_)?(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)


_SPECIFIED = frozenset(SPECIFIED)


class Given(NamedTuple):
    """One value as it was given; `source` is what `router config` shows, `where` what an error
    says.
    """

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
    """The variables that the specifications name, in either case; other NATS_* variables are not
    read.
    """
    return [
        Given(name.lower(), environ[name], name, name)
        for name in sorted(environ)
        if name.upper() in _SPECIFIED
    ]


def from_environment(environ: Mapping[str, str]) -> Layer:
    """Every ROUTER_* variable except the one with the file's name."""
    names = sorted(
        name for name in environ if name.startswith(ENVIRONMENT_PREFIX) and name != CONFIG_FILE
    )
    return [
        Given(name.removeprefix(ENVIRONMENT_PREFIX), environ[name], name, name) for name in names
    ]


def is_service_link(given: Given) -> bool:
    """Whether a variable looks like those that Kubernetes sets for a Service:
    ROUTER_PORT=tcp://10.0.0.1:9001, ROUTER_SERVICE_HOST.
    """
    is_address = given.source.startswith(ENVIRONMENT_PREFIX) and str(given.value).startswith(
        ("tcp://", "udp://", "sctp://")
    )
    return is_address or _SERVICE_LINK.fullmatch(given.source) is not None


def from_command_line(overrides: Mapping[str, object]) -> Layer:
    """Options by the setting's name; None is an option that was not given."""
    return [
        Given(name, value, "command line", f"{name} on the command line")
        for name, value in overrides.items()
        if value is not None
    ]


def config_file(environ: Mapping[str, str]) -> Path | None:
    name = environ.get(CONFIG_FILE)
    return Path(name) if name else None


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
