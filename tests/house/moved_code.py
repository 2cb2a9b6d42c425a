"""The functions and statements of router/ without names of modules: equal before and after a move.

A function is `ast.dump` of its definition, by digest, beside its name. Left out is what a move
rewrites: imports, docstrings, and in strings the name of a module (`router.delivery.consume.settle`
in a string becomes `router.*`). Where two functions are equal, both are counted.

    functions     each `def` and `async def`, of a module, of a class, and inside a function
    statements    what a module does when it is loaded: classes, values, calls
"""

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.measure import Function

MODULE_NAME = re.compile(r"\brouter(?:\.[a-z_][a-z_0-9]*)+")


def list_definitions(tree: Path) -> dict[str, list[str]]:
    """Sorted lines `digest name`, of functions and of statements."""
    functions: list[str] = []
    statements: list[str] = []
    for file in sorted((tree / "router").rglob("*.py")):
        if "pb" not in file.parts:
            module = NeutralModules().visit(ast.parse(file.read_text()))
            functions += (
                f"{_digest(node)} {node.name}"
                for node in ast.walk(module)
                if isinstance(node, Function)
            )
            statements += (f"{_digest(node)} {_name(node)}" for node in _list_statements(module))
    return {"functions": sorted(functions), "statements": sorted(statements)}


class NeutralModules(ast.NodeTransformer):
    """Takes out what a move may change: imports, names of modules in strings, docstrings."""

    def visit_Import(self, _: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, _: ast.ImportFrom) -> None:
        return None

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return (
            ast.Constant(MODULE_NAME.sub("router.*", node.value))
            if isinstance(node.value, str)
            else node
        )

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_docstring else self.generic_visit(node)


def _list_statements(module: ast.Module) -> Iterator[ast.stmt]:
    """Those of the module; no functions, and no `if TYPE_CHECKING:` that had imports alone."""
    for node in module.body:
        if not isinstance(node, Function) and not (isinstance(node, ast.If) and not node.body):
            yield node


def _name(node: ast.stmt) -> str:
    return getattr(node, "name", "") or ast.unparse(node).splitlines()[0][:60]


def _digest(node: ast.AST) -> str:
    return hashlib.sha256(ast.dump(node).encode()).hexdigest()[:16]
