"""Import what a user wrote and a command line names: a function, an agent, the extensions of a
file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from router.core.errors import Misconfigured
from router.core.user_functions import contain_exit

if TYPE_CHECKING:
    from router.agents.adapter import AgentAdapter
    from router.sdk.extension import Extension

METAVAR = "MODULE:FUNCTION"
AGENT = "MODULE:AGENT"

AgentTarget = Annotated[
    str, typer.Argument(metavar=AGENT, help="A class, or a function that makes an agent.")
]
StoreFile = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The agent's event store.", dir_okay=False)
]


def import_function(target: str, example: str, metavar: str = METAVAR) -> Callable[..., Any]:
    """Return what can be called at `module:name`. Raises Misconfigured, which names the argument
    `metavar`.
    """
    place, colon, name = target.partition(":")
    if not (place and colon and name):
        raise Misconfigured(metavar, f"{target!r} is not like {example}")
    try:
        with contain_exit:
            function = getattr(_import_module(place), name)
    except Exception as exc:  # a user's module may raise anything while it is imported
        raise Misconfigured(
            metavar, f"{target} cannot be loaded: {type(exc).__name__}: {exc}"
        ) from exc
    if not callable(function):
        raise Misconfigured(metavar, f"{target} cannot be called")
    return function  # type: ignore[no-any-return]


def import_agent(target: str) -> AgentAdapter:
    """Return the agent that `module:name` makes without arguments. Raises Misconfigured."""
    from router.agents.adapter import AgentAdapter

    make = import_function(target, "my_package.agents:Ledger", AGENT)
    try:
        with contain_exit:
            made = make()
    except Exception as exc:  # a user's code may raise anything
        raise Misconfigured(AGENT, f"{target} cannot be made: {type(exc).__name__}: {exc}") from exc
    if not isinstance(made, AgentAdapter):
        raise Misconfigured(
            AGENT,
            f"{target} is no agent: it needs a name, receive(envelope) and apply(ctx, envelope)",
        )
    return made


def import_extensions(target: str) -> list[Extension]:
    """Return every extension in `FILE`, or the one at `FILE:FUNCTION`; FILE may be a module's name.
    Raises Misconfigured.
    """
    from router.sdk.extension import Extension

    place, colon, name = target.rpartition(":") if ":" in target else (target, "", "")
    try:
        with contain_exit:
            module = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    except Misconfigured:
        raise
    except Exception as exc:  # a user's file may raise anything while it is imported
        raise Misconfigured(place, f"cannot be loaded: {type(exc).__name__}: {exc}") from exc
    named = {key: value for key, value in vars(module).items() if isinstance(value, Extension)}
    if colon and name not in named:
        there = f"there are {', '.join(named)}" if named else "there are none"
        raise Misconfigured(target, f"{name} is no extension there; {there}")
    extensions = (
        [named[name]]
        if colon
        else [extension for extension in named.values() if extension.__module__ == module.__name__]
    )
    if not extensions:
        raise Misconfigured(
            target, "holds no function with @pre, @validator, @post or @provider on it"
        )
    return extensions


def _import_module(name: str) -> ModuleType:
    """Import a module, which may be in the working directory."""
    sys.path.insert(0, os.getcwd())
    return import_module(name)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise Misconfigured(str(path), "is no file")
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Misconfigured(str(path), "is no Python file")
    module, before = module_from_spec(spec), sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    # modules beside it can be imported, as when it is run
    sys.path[:0] = [str(path.parent.resolve()), os.getcwd()]
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # also `sys.exit()` and Ctrl-C: half a module must not be found by the next import
        sys.modules.pop(path.stem, None)
        if before is not None:
            sys.modules[path.stem] = before
        raise
    return module
