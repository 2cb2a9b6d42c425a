"""What the rules find in the repository today.

    duplicate classes     a class name of router/ that more than one class bears
    fragment functions    a function of router/ that a participle or a fragment names, not a verb
    old words             a class or function of tests/ or bench/ whose name has a word that the
                          glossary replaced
    vague prose           a file whose docstrings, comments or lines speak of somebody, nobody,
                          whoever or a stranger

Each answers name -> the files, a file once for each time. Generated code is left out. `words.toml`
has the words, `allowed_functions.toml` the functions that keep their name, each with its reason.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
WORDS = {
    kind: frozenset(words)
    for kind, words in tomllib.loads((HERE / "words.toml").read_text()).items()
}
ALLOWED_FUNCTIONS: dict[str, str] = tomllib.loads((HERE / "allowed_functions.toml").read_text())
VAGUE_SUBJECTS = re.compile(rf"\b({'|'.join(sorted(WORDS['vague_subjects']))})\b", re.IGNORECASE)
PROPERTIES = {"property", "cached_property", "setter", "computed_field"}
PAGES = ("router", "tests", "bench", "deploy", "docs")

Places = dict[str, list[Path]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_duplicate_classes(root: Path = REPOSITORY) -> Places:
    places: Places = {}
    for file in _sources(root, "router"):
        for node in ast.walk(_parse(file)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(file)
    return {name: files for name, files in places.items() if len(files) > 1}


def find_fragment_functions(root: Path = REPOSITORY) -> Places:
    places: Places = {}
    for file in _sources(root, "router"):
        for node in ast.walk(_parse(file)):
            if isinstance(node, Function) and not _is_property(node) and is_fragment(node.name):
                places.setdefault(node.name, []).append(file)
    return places


def find_old_words(root: Path = REPOSITORY) -> Places:
    places: Places = {}
    for file in _sources(root, "tests", "bench"):
        for name in re.findall(r"^ *(?:async def|def|class) (\w+)", file.read_text(), re.MULTILINE):
            if not WORDS["old_words"].isdisjoint(
                re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
            ):
                places.setdefault(name, []).append(file)
    return places


def find_vague_prose(root: Path = REPOSITORY) -> Places:
    lines = {file: _prose_lines(file) for file in _sources(root, "router", "tests", "bench")}
    lines |= {page: enumerate(page.read_text().splitlines(), 1) for page in _pages(root)}
    counts = {
        file: len({number for number, line in prose if VAGUE_SUBJECTS.search(line)})
        for file, prose in lines.items()
    }
    return {str(file.relative_to(root)): [file] * count for file, count in counts.items() if count}


def is_fragment(name: str) -> bool:
    """Whether a function's name is a participle or a fragment: no verb, no predicate, no callback,
    no noun.
    """
    if name.startswith("__") or name in ALLOWED_FUNCTIONS:
        return False
    first, *more = name.strip("_").split("_")
    if first in WORDS["predicates_and_callbacks"]:
        return False
    if first in WORDS["particles"] | WORDS["past_verbs"] | WORDS["third_person"]:
        return True
    if first in WORDS["adjectives"] or _is_participle(first):
        return (
            not more
            or more[-1] in WORDS["particles"] | WORDS["dangling"]
            or _is_participle(more[-1])
        )
    return bool(more) and first not in WORDS["verbs"] and _is_participle(more[-1])


def _is_participle(word: str) -> bool:
    return word in WORDS["past_verbs"] or (
        word.endswith(("ed", "ing")) and word not in WORDS["verbs_and_nouns"]
    )


def _is_property(node: Function) -> bool:
    return any(
        ast.unparse(decorator).split("(")[0].rpartition(".")[2] in PROPERTIES
        for decorator in node.decorator_list
    )


def _prose_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines of a module's docstrings and comments, each with its number; none where no word is
    vague: parsing is what costs.
    """
    if VAGUE_SUBJECTS.search(file.read_text()) is None:
        return
    for node in ast.walk(_parse(file)):
        if isinstance(node, Function | ast.ClassDef | ast.Module) and (
            docstring := ast.get_docstring(node, clean=False)
        ):
            yield from enumerate(docstring.splitlines(), node.body[0].lineno)
    for token in tokenize.generate_tokens(io.StringIO(file.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _sources(root: Path, *folders: str) -> list[Path]:
    return [
        file
        for folder in folders
        for file in sorted((root / folder).rglob("*.py"))
        if "pb" not in file.parts and file.parent != HERE
    ]


def _pages(root: Path) -> list[Path]:
    pages = [
        *root.glob("*.md"),
        *(page for folder in PAGES for page in (root / folder).rglob("*.md")),
    ]
    return sorted([*pages, *(root / "router" / "contracts" / "codes").glob("*.toml")])


@cache
def _parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text())
