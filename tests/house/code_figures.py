"""Figures of the code of `router/`, without what is generated.

code lines    lines that are neither blank, nor a comment alone, nor of a docstring
imports       the code lines of `import` and `from`, wherever they stand
slip          at most SMALL lines, and one file imports it, which stands beside it
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.house.measure import HERE, REPOSITORY, Function

SMALL = 110
WIDE = 100
WITHOUT_CODE = {"__init__.py", "__main__.py"}
Import = ast.Import | ast.ImportFrom


class SourceFacts(NamedTuple):
    """What the figures need of a file. `constructors`: how many arguments a class takes."""

    lines: list[str]
    code_lines: frozenset[int]
    import_lines: frozenset[int]
    modules: frozenset[str]
    constructors: dict[str, int]


def average_rooms(root: Path = REPOSITORY) -> float:
    """In how many rooms the files of a feature stand, on average."""
    features = read_features().values()
    return sum(len(list_rooms(list_files_of(patterns, root))) for patterns in features) / len(
        features
    )


def count_files(root: Path = REPOSITORY) -> int:
    return len(list_sources(root))


def count_router_lines(root: Path = REPOSITORY) -> int:
    return sum(len(read_facts(file).lines) for file in list_sources(root))


def count_test_lines(root: Path = REPOSITORY) -> int:
    folders = (root / "tests", root / "rigs")
    return sum(
        len(file.read_text().splitlines()) for folder in folders for file in folder.rglob("*.py")
    )


def measure_imports(root: Path = REPOSITORY) -> float:
    """The share of imports in the code lines, percent."""
    facts = [read_facts(file) for file in list_sources(root)]
    return (
        100
        * sum(len(one.import_lines) for one in facts)
        / sum(len(one.code_lines) for one in facts)
    )


def measure_wide_lines(root: Path = REPOSITORY) -> float:
    """The share of lines above WIDE columns, percent."""
    lines = [line for file in list_sources(root) for line in read_facts(file).lines]
    return 100 * sum(len(line) > WIDE for line in lines) / len(lines)


def count_slips(root: Path = REPOSITORY) -> int:
    return len(find_slips(root))


def count_arguments(root: Path = REPOSITORY) -> int:
    """Of the widest constructor; without those that may be wide: allowed_constructors.toml."""
    counts = list_constructors(root)
    return max((counts[name] for name in counts.keys() - read_wide_classes().keys()), default=0)


def read_wide_classes() -> dict[str, str]:
    """A class and why its constructor may take many arguments: allowed_constructors.toml."""
    classes: dict[str, str] = tomllib.loads((HERE / "allowed_constructors.toml").read_text())
    return classes


def read_features() -> dict[str, list[str]]:
    """A feature and the patterns of its files: features.toml."""
    features: dict[str, list[str]] = tomllib.loads((HERE / "features.toml").read_text())
    return features


def list_files_of(patterns: list[str], root: Path = REPOSITORY) -> list[Path]:
    """The files whose path below router/ has one of the patterns."""
    wanted = re.compile("|".join(patterns))
    paths = (file.relative_to(root / "router") for file in list_sources(root))
    return [path for path in paths if wanted.search(path.as_posix())]


def list_rooms(files: list[Path]) -> list[str]:
    return sorted({file.parts[0] for file in files})


def find_slips(root: Path = REPOSITORY) -> list[Path]:
    importers = (
        (file, importing)
        for file, importing in find_importers(root).items()
        if file.name not in WITHOUT_CODE
    )
    small = (
        (file, importing) for file, importing in importers if len(read_facts(file).lines) <= SMALL
    )
    return [
        file
        for file, importing in small
        if len(importing) == 1 and {one.parent for one in importing} == {file.parent}
    ]


def find_importers(root: Path = REPOSITORY) -> dict[Path, set[Path]]:
    """Each file of router/, and the files of router/ that import it, anywhere in their code."""
    files = {name_module(file, root): file for file in list_sources(root)}
    importers: dict[Path, set[Path]] = {file: set() for file in files.values()}
    for file in files.values():
        for module in read_facts(file).modules & files.keys():
            importers[files[module]].add(file)
    return importers


def list_constructors(root: Path = REPOSITORY) -> dict[str, int]:
    return {
        name: count
        for file in list_sources(root)
        for name, count in read_facts(file).constructors.items()
    }


def name_module(file: Path, root: Path = REPOSITORY) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


@cache
def list_sources(root: Path = REPOSITORY) -> list[Path]:
    return [file for file in sorted((root / "router").rglob("*.py")) if "pb" not in file.parts]


@cache
def read_facts(file: Path) -> SourceFacts:
    """One walk through a file: nine hundred of them cost seconds."""
    lines = file.read_text().splitlines()
    code = {
        number
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    }
    imports: list[Import] = []
    constructors: dict[str, int] = {}
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, Import):
            imports.append(node)
        elif (
            isinstance(node, Function | ast.ClassDef | ast.Module)
            and ast.get_docstring(node, clean=False) is not None
        ):
            code -= set(_list_lines(node.body[0]))
        if isinstance(node, ast.ClassDef):
            constructors |= _count_constructor(node)
    import_lines = {number for node in imports for number in _list_lines(node)} & code
    modules = {module for node in imports for module in _list_modules(node)}
    return SourceFacts(
        lines, frozenset(code), frozenset(import_lines), frozenset(modules), constructors
    )


def _list_lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _list_modules(node: Import) -> Iterator[str]:
    """What is imported, and what may be a module: the name after `import`, too."""
    names = [name.name for name in node.names]
    if isinstance(node, ast.Import):
        yield from names
    elif node.module:
        yield node.module
        yield from (f"{node.module}.{name}" for name in names)


def _count_constructor(node: ast.ClassDef) -> dict[str, int]:
    methods = [
        method
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    ]
    return {node.name: _count_arguments(methods[-1].args)} if methods else {}


def _count_arguments(arguments: ast.arguments) -> int:
    """Beside `self`; `*names` and `**names` are one each."""
    named = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs) - 1
    return named + (arguments.vararg is not None) + (arguments.kwarg is not None)
