"""Every regular expression of router/ costs time in proportion to its text, whatever the text is
made of.

Each place that compiles a pattern is found in the source, so a new one is measured, or named here
with the reason why it meets no text from outside. What is measured is a ratio: eight times the text
may cost twenty-four times the time (eight is linear, sixty-four quadratic), in processor time, the
least of several tries. So neither the machine's speed nor its load decides.
"""

import ast
import importlib
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import router
from router.delivery.wire.frames import PlainFrames

ROOT = Path(router.__file__).parent
FUNCTIONS = {
    "compile",
    "search",
    "match",
    "fullmatch",
    "sub",
    "subn",
    "split",
    "findall",
    "finditer",
}
# Patterns that stand inside a function, each with the texts that it meets: none of them comes over
# the wire.
INSIDE_FUNCTIONS = {
    ("config/load.py", r"^(Value error,|Input|Value|String|Tuple) "): "pydantic's own words",
    (
        "operate/dead_letters/depth.py",
        None,
    ): "a letter's subject, at most 4 kB, between two literals of the settings",
    ("shell/lazy_commands.py", None): "the name of one of our commands, in our own file",
    ("contracts/shapes/notation.py", ",|;"): "our own notation of an operators' service",
    ("contracts/shapes/notation.py", r" or | \| "): "our own notation of an operators' service",
    (
        "delivery/wire/frames.py",
        None,
    ): "measured all the same: `PlainFrames` compiles three for each subscription",
    ("lake/tables/schemas.py", r",\s+"): "our own table of columns",
    ("lake/session.py", r'version "(?:1\.)?(\d+)'): "what `java -version` prints",
    (
        "core/clock.py",
        r"([0-9]{1,6})([smhd])",
    ): "an option, or a filter in the console's address: six digits",
    ("cli/docs.py", r"[^\w\- ]"): "one character at a time, of the headings of our own pages",
    (
        "cli/docs.py",
        r"\[([^\]]*)\]\([^)]*\)|<[^>]*>",
    ): "the headings of our own pages, read from the package",
    ("sdk/samples/extensions/pii_guard.py", r"\D"): "one character at a time",
}
SMALL, LARGE = 2_000, 16_000
MOST = 32.0  # the square is 64; a machine that is busy doubles the 8 of a proportion, and more
LETTERS = 'a0/ ."\\@-:_={[\n\r,é'


def _sources(name: str) -> Iterator[tuple[Path, str]]:
    """The files that import it: each test process reads them before its first test, so the others
    are not parsed.
    """
    imported = re.compile(rf"^(from\s.*\b)?import\s.*\b{name}\b", re.MULTILINE)
    for file in sorted(ROOT.rglob("*.py")):
        if "pb" not in file.parts and imported.search(text := file.read_text()):
            yield file, text


def _places() -> Iterator[tuple[tuple[str, str | None], bool]]:
    """((file, pattern where it is a literal), whether it stands in the module's own lines)."""
    for file, text in _sources("re"):
        tree = ast.parse(text)
        inside = {
            id(node)
            for one in ast.walk(tree)
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(one)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _is_of_re(node.func):
                given = node.args[0]
                literal = given.value if isinstance(given, ast.Constant) else None
                yield (str(file.relative_to(ROOT)), literal), id(node) not in inside


def _is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in FUNCTIONS
    )


PLACES = list(_places())


def _patterns() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Every compiled pattern of a module's own lines, by where it stands."""
    found: dict[str, re.Pattern[str] | re.Pattern[bytes]] = {}
    for file in {ROOT / place for (place, _), is_global in PLACES if is_global}:
        name = ".".join(("router", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(
            ".__init__"
        )
        for key, value in vars(importlib.import_module(name)).items():
            inner = value.items() if isinstance(value, dict) else [("", value)]
            found |= {
                f"{name}.{key}{of and f'[{of}]'}": one
                for of, one in inner
                if isinstance(one, re.Pattern)
            }
    plain = PlainFrames(7)
    for read in (plain._match_begin, plain._match_headed, plain._match_bare):
        found[f"router.delivery.wire.frames.PlainFrames {len(found)}"] = read.__self__  # type: ignore[attr-defined]
    return found | {place: re.compile(pattern) for place, pattern in _of_msgspec()}


def _of_msgspec() -> Iterator[tuple[str, str]]:
    """What msgspec compiles for us: `Meta(pattern=…)`. pydantic's (settings) and Arrow's are
    automata, linear by nature.
    """
    for file, text in _sources("Meta"):
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Meta"
            ):
                yield from (
                    (f"{file.relative_to(ROOT)}:{word.value.lineno}", word.value.value)
                    for word in node.keywords
                    if word.arg == "pattern" and isinstance(word.value, ast.Constant)
                )


PATTERNS = _patterns()


def test_every_pattern_is_measured_or_named_with_its_reason() -> None:
    assert {found for found, is_global in PLACES if not is_global} == set(INSIDE_FUNCTIONS)
    assert len(PATTERNS) >= len([found for found, is_global in PLACES if is_global])


def _hostile(pattern: re.Pattern[str] | re.Pattern[bytes]) -> Iterator[tuple[str, str]]:
    """Pieces to repeat, each with an end that lets a match fail: single characters, pairs, and
    words of the pattern itself.
    """
    words = {
        *re.findall(r"[A-Za-z0-9]{2,}", str(pattern.pattern)),
        *re.findall(r"[/@{}=\".-]{2,}", str(pattern.pattern)),
    }
    units = [
        *LETTERS,
        *map("".join, itertools.permutations('a0/.-@"\\', 2)),
        *words,
        *(f"{word}_" for word in words),
        *(f"{word} " for word in words),
    ]
    for unit in units:
        for end in ("\x00", " @"):
            yield unit, end


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_a_pattern_costs_no_more_than_in_proportion(name: str) -> None:
    pattern = PATTERNS[name]
    is_bytes = isinstance(pattern.pattern, bytes)
    for unit, end in _hostile(pattern):
        small, large = (unit * (size // len(unit)) + end for size in (SMALL, LARGE))
        for use in (pattern.fullmatch, pattern.search, _substitute(pattern)):
            least = _ratio(
                use, small.encode() if is_bytes else small, large.encode() if is_bytes else large
            )
            assert least < MOST, (
                f"{name} on {unit!r} and {end!r}: {LARGE // SMALL} times the text costs "
                f"{least:.0f} times the time"
            )


_NOTHING = {bytes: b"", str: ""}


def _substitute(pattern):  # type: ignore[no-untyped-def]
    return lambda text: pattern.sub(_NOTHING[bytes if isinstance(text, bytes) else str], text)


def _ratio(use, small, large) -> float:  # type: ignore[no-untyped-def]
    """The least of up to twenty tries; below 200 µs there is nothing that could hang a process."""
    least = float("inf")
    for _ in range(20):
        short, long = _cost(use, small), _cost(use, large)
        least = min(least, long / max(short, 1e-6) if long > 200e-6 else 0.0)
        if least < MOST:
            break
    return least


def _cost(use, text) -> float:  # type: ignore[no-untyped-def]
    began = time.thread_time()
    use(text)
    return time.thread_time() - began
