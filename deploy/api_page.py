"""The page of the Python API, made of the source: `python deploy/api_page.py >
docs/reference/python.md`.

What a module lists in `__all__` is what users import. Signatures and values are read from the
source, not from the objects: a default then stands as its author wrote it, on every version of
Python.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

MODULES = {
    "router": "from router import Client, Worker, …",
    "router.sdk.extension": "[Writing an extension](../how-to/write-an-extension.md)",
    "router.sdk.agent": "[Writing an agent](../how-to/write-an-agent.md)",
    "router.sdk.outbox": "[Using the mailbox](../how-to/use-the-mailbox.md)",
    "router.bus": "[An event](../tutorials/first-steps.md#an-event)",
    "router.sdk.testing": "[Testing your own](../how-to/test-your-own.md)",
}
HEAD = """# Python

<!-- all not run: signatures, as the source has them; the pages that are named at each module have programs that a test runs -->

Made by `python deploy/api_page.py`; a test keeps it equal to the code. These modules and names are what programs import; all else is
the router's own and changes without notice. Every name has types (`py.typed`).
"""
WIDTH = 90
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def build_page() -> str:
    shown: set[str] = set()
    return HEAD + "".join(_build_module(name, manual, shown) for name, manual in MODULES.items())


def _build_module(name: str, manual: str, shown: set[str]) -> str:
    """A name that an earlier module has shown is not shown again."""
    module = importlib.import_module(name)
    names = [
        one
        for one in module.__all__
        if one not in shown
        and not one.startswith("_")
        and not inspect.ismodule(getattr(module, one))
    ]
    shown.update(names)
    first = (inspect.getdoc(module) or "").partition("\n\n")[0]
    manual = f"`{manual}`" if manual.startswith("from ") else f"The page for authors: {manual}."
    return f"\n## {name}\n\n{first}\n\n{manual}\n" + "".join(
        _build_name(module, one) for one in names
    )


def _build_name(module: ModuleType, name: str) -> str:
    home, node = _find_definition(module, name)
    text = _clean(ast.get_docstring(node)) if isinstance(node, Definition) else ""
    methods = (
        "".join(_build_method(name, one) for one in _list_methods(node))
        if isinstance(node, ast.ClassDef)
        else ""
    )
    signature = "\n".join(_list_signature(node, name))
    return f"\n### {name}\n\n```python\n{signature}\n```\n\n{text}(`{home}`)\n{methods}"


def _build_method(owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    signature = "\n".join(_list_signature(node, f"{owner}.{node.name}"))
    return f"\n```python\n{signature}\n```\n\n{ast.get_docstring(node)}\n"


def _find_definition(module: ModuleType, name: str) -> tuple[str, ast.stmt]:
    """The module that defines a name, found along the imports, and the statement that does."""
    for node in _list_statements(_read(module)):
        if isinstance(node, Definition) and node.name == name:
            return module.__name__, node
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _list_targets(node):
            return module.__name__, node
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and any(name == (one.asname or one.name) for one in node.names)
        ):
            return _find_definition(importlib.import_module(node.module), name)
    raise LookupError(f"{module.__name__} defines no {name}")


def _read(module: ModuleType) -> ast.Module:
    return ast.parse(Path(inspect.getsourcefile(module) or "").read_text("utf-8"))


def _list_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Those under `if TYPE_CHECKING:`, too, which import the names that are loaded when they are
    first asked for.
    """
    for node in tree.body:
        yield from node.body if isinstance(node, ast.If) else (node,)


def _list_targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [one.id for one in targets if isinstance(one, ast.Name)]


def _list_methods(node: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those for users: without `_`, and with a text."""
    for one in node.body:
        if (
            isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            and not one.name.startswith("_")
            and ast.get_docstring(one)
        ):
            yield one


def _list_signature(node: ast.stmt, name: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield from _list_class(node, name)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for one in node.decorator_list:
            if ast.unparse(one) in ("property", "classmethod", "staticmethod"):
                yield f"@{ast.unparse(one)}"
        start = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        yield f"{start}{name}({_list_arguments(node)}){result}"
    else:
        yield ast.unparse(node)


def _list_class(node: ast.ClassDef, name: str) -> Iterator[str]:
    """Its constructor's signature, or its fields and what it derives from."""
    maker = next(
        (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"),
        None,
    )
    if maker is not None:
        yield f"{name}({_list_arguments(maker)})"
        return
    bases = ", ".join(map(ast.unparse, node.bases))
    yield f"class {name}({bases})" if bases else f"class {name}"
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_"):
            yield f"    {ast.unparse(one)}"


def _list_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Without `self`; one on each line where they would not fit into one."""
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix("cls").removeprefix(", ")
    return (
        arguments
        if len(arguments) <= WIDTH
        else "\n    " + ",\n    ".join(_split(arguments)) + ",\n"
    )


def _split(arguments: str) -> Iterator[str]:
    """At each comma that is in no bracket."""
    start = depth = 0
    for place, character in enumerate(arguments):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            yield arguments[start:place]
            start = place + 2
    yield arguments[start:]


def _clean(text: str | None) -> str:
    return f"{text}\n\n" if text else ""


if __name__ == "__main__":
    print(build_page(), end="")
