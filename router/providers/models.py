"""The models that a provider has: of the operator's file, or as its API lists them.

    ["gpt-4o", "gpt-4o-mini"]                        the names
    {"claude-sonnet-4-5": {"max_tokens": 2048}}      with parameters for calls that name none

A file closes the list: any other model is refused. What an API lists is shown, and closes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson
from msgspec import Struct

from router.core.errors import Misconfigured
from router.core.ids import is_opaque

MAX_MODELS = 256
MAX_FILE_BYTES = 256 * 1024
MAX_DEFAULTS_BYTES = 4 * 1024
NOTHING: Mapping[str, Any] = MappingProxyType({})
LEGAL = (
    f"should be a JSON list of 1..{MAX_MODELS} names, or an object of names with their parameters"
)


class ServedModels(Struct, frozen=True):
    """`defaults`: by name. `is_closed`: no other model may be asked for."""

    names: tuple[str, ...] = ()
    defaults: Mapping[str, Mapping[str, Any]] = NOTHING
    is_closed: bool = False

    @property
    def first(self) -> str | None:
        return self.names[0] if self.names else None

    def may_serve(self, model: str) -> bool:
        return not self.is_closed or model in self.names

    def get_defaults(self, model: str) -> Mapping[str, Any]:
        return self.defaults.get(model, NOTHING)


def load_models(path: Path) -> ServedModels:
    """Read the file. Raises Misconfigured, which shows nothing of its content."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        document = orjson.loads(data) if len(data) <= MAX_FILE_BYTES else None
    except OSError as exc:
        raise Misconfigured("--models", f"the file cannot be read: {exc.strerror}") from exc
    except orjson.JSONDecodeError as exc:
        raise Misconfigured("--models", LEGAL) from exc
    return _read_models(document)


def _read_models(document: object) -> ServedModels:
    if not isinstance(document, list | dict) or not 1 <= len(document) <= MAX_MODELS:
        raise Misconfigured("--models", LEGAL)
    names = list_legal(document)
    if len(names) != len(document):
        raise Misconfigured(
            "--models",
            "a name should be 1..128 printable characters of ASCII without a space, once",
        )
    return ServedModels(
        names, _read_defaults(document) if isinstance(document, dict) else NOTHING, is_closed=True
    )


def _read_defaults(document: Mapping[str, object]) -> Mapping[str, Mapping[str, Any]]:
    defaults: dict[str, Mapping[str, Any]] = {}
    for name, value in document.items():
        if not isinstance(value, dict) or len(orjson.dumps(value)) > MAX_DEFAULTS_BYTES:
            raise Misconfigured(
                "--models",
                f"parameters of a model should be an object of {MAX_DEFAULTS_BYTES} bytes",
            )
        defaults[name] = value
    return defaults


def list_legal(names: Iterable[object]) -> tuple[str, ...]:
    """The first legal names, each once."""
    legal = dict.fromkeys(name for name in names if isinstance(name, str) and is_opaque(name))
    return tuple(legal)[:MAX_MODELS]
