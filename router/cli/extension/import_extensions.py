"""Import extensions from an author's file or module."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from router.core.errors import Misconfigured

if TYPE_CHECKING:
    from router.sdk.extension import Extension


def import_extensions(target: str) -> list[Extension]:
    """Return every extension in `FILE`, or the one at `FILE:FUNCTION`; FILE may be a module's name. Raises Misconfigured."""
    from router.sdk.extension import Extension

    place, colon, name = target.rpartition(":") if ":" in target else (target, "", "")
    module = _import_module(place)
    named = {key: value for key, value in vars(module).items() if isinstance(value, Extension)}
    if colon and name not in named:
        raise Misconfigured(target, f"{name} is no extension there; {_list_names(named)}")
    found = [named[name]] if colon else [one for one in named.values() if one.__module__ == module.__name__]
    if not found:
        raise Misconfigured(target, "holds no function with @pre, @validator, @post or @provider on it")
    return found


def _import_module(place: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        return _import_file(Path(place)) if place.endswith(".py") else import_module(place)
    except Misconfigured:
        raise
    except Exception as exc:  # a user's file may raise anything while it is imported
        raise Misconfigured(place, f"cannot be loaded: {type(exc).__name__}: {exc}") from exc


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Misconfigured(str(path), "is no file")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Misconfigured(str(path), "is no Python file")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))  # modules beside it can be imported, as when it is run
    spec.loader.exec_module(module)
    return module


def _list_names(named: dict[str, Extension]) -> str:
    return f"there are {', '.join(named)}" if named else "there are none"
