"""Import a user's function that a command line names as `module:function`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from router.core.errors import Misconfigured

METAVAR = "MODULE:FUNCTION"


def import_function(target: str, example: str) -> Callable[..., Any]:
    """Return the function; its module may be in the working directory. Raises Misconfigured."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise Misconfigured(METAVAR, f"{target!r} is not like {example}")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(import_module(module), name)
    except Exception as exc:  # a user's module may raise anything while it is imported
        raise Misconfigured(METAVAR, f"{target} cannot be loaded: {type(exc).__name__}: {exc}") from exc
    if not callable(found):
        raise Misconfigured(METAVAR, f"{target} is no function")
    return found  # type: ignore[no-any-return]
